"use strict";
(() => {
  const root = document.documentElement;
  const byId = (id) => document.getElementById(id);
  const charts = JSON.parse(byId("charts").textContent);
  const plots = new Map(); // the element of each chart that is drawn
  const coarse = matchMedia("(pointer: coarse)").matches;
  const system = matchMedia("(prefers-color-scheme: dark)");

  // --- theme: the system's, until the reader chooses another ---
  const isDark = () =>
    root.dataset.theme ? root.dataset.theme === "dark" : system.matches;

  function label() {
    const button = byId("theme");
    button.textContent = isDark() ? "☀ Light" : "☾ Dark";
    button.setAttribute("aria-label", `Switch to the ${isDark() ? "light" : "dark"} theme`);
  }

  function remember(theme) {
    try { localStorage.setItem("qcapsnets-theme", theme); } catch { /* a file has no storage */ }
  }

  function switchTheme() {
    root.dataset.theme = isDark() ? "light" : "dark";
    remember(root.dataset.theme);
    themeChanged();
  }

  function themeChanged() {
    label();
    for (const name of plots.keys()) draw(name);
  }

  // --- charts: `@ink` and the like become the theme's colours, and blue is lighter at night ---
  function coloured(value, style) {
    if (typeof value === "string")
      return value.startsWith("@") ? style.getPropertyValue(`--${value.slice(1)}`).trim()
        : value === "#0072B2" ? style.getPropertyValue("--blue").trim() : value;
    if (Array.isArray(value)) return value.map((item) => coloured(item, style));
    if (value && typeof value === "object")
      return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, coloured(v, style)]));
    return value;
  }

  const axis = (own) => ({
    gridcolor: "@line", zerolinecolor: "@line", linecolor: "@line", tickfont: { color: "@muted" },
    ...own, title: { standoff: 8, font: { size: 13 }, ...own?.title },
  });

  function themed(layout) {
    const family = getComputedStyle(document.body).fontFamily;
    return {
      ...layout,
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family, size: 13, color: "@ink" },
      hoverlabel: {
        bgcolor: "@paper", bordercolor: "@muted", align: "left",
        font: { family, color: "@ink", size: 13 },
      },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: "@muted", activecolor: "@ink" },
      dragmode: coarse ? false : "zoom",
      xaxis: axis(layout.xaxis), yaxis: axis(layout.yaxis),
    };
  }

  const options = (chart) => ({
    responsive: true, displaylogo: false,
    doubleClick: coarse ? false : "reset", // a tap must not count twice
    displayModeBar: chart.views && !coarse ? "hover" : false,
    modeBarButtons: [["zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d", "toImage"]],
  });

  function draw(name) {
    const chart = charts[name], style = getComputedStyle(root);
    const element = document.querySelector(`[data-chart="${name}"]`);
    plots.set(name, element);
    return Plotly.react(
      element, coloured(chart.data, style), coloured(themed(chart.layout), style), options(chart));
  }

  // --- the plans: which schemes, coloured by what, how much of the axis ---
  function pressed(group, button) {
    for (const other of group.querySelectorAll("button"))
      other.setAttribute("aria-pressed", String(other === button));
  }

  function toggleScheme(name, scheme) {
    for (const trace of charts[name].data)
      if (trace.meta?.scheme === scheme.value) trace.visible = !(trace.visible ?? true);
    scheme.setAttribute("aria-pressed", String(scheme.getAttribute("aria-pressed") === "false"));
    draw(name);
  }

  function colourBy(name, what) {
    for (const { meta, marker, error_y: stem } of charts[name].data) {
      if (!meta?.colours) continue;
      marker.color = meta.colours[what];
      if (stem) stem.color = marker.line.color = marker.color;
    }
    document.querySelector(`[data-keys="${name}"]`)?.setAttribute("data-by", what);
    draw(name);
  }

  function view(name, which) {
    charts[name].layout.yaxis.range = charts[name].views[which].slice();
    draw(name);
  }

  const actions = { colour: colourBy, view };

  function connect(controls) {
    const name = controls.dataset.controls;
    for (const chip of controls.querySelectorAll("[data-scheme]"))
      chip.addEventListener("click", () => toggleScheme(name, chip));
    for (const group of controls.querySelectorAll("[data-action]"))
      for (const button of group.querySelectorAll("button"))
        button.addEventListener("click", () => {
          pressed(group, button);
          actions[group.dataset.action](name, button.value);
        });
  }

  async function copy(button) {
    await navigator.clipboard.writeText(byId(button.dataset.copy).textContent);
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  }

  // --- plotly.js is in the page, compressed ---
  async function unpack(id) {
    const bytes = Uint8Array.from(atob(byId(id).textContent.trim()), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const script = document.createElement("script");
    script.textContent = await new Response(stream).text();
    document.head.append(script);
  }

  // --- paper: everything that is folded away is opened ---
  let folded = [];
  addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("details:not([open])")];
    for (const details of folded) details.open = true;
  });
  addEventListener("afterprint", () => { for (const details of folded) details.open = false; });

  async function start() {
    label();
    byId("theme").addEventListener("click", switchTheme);
    system.addEventListener("change", themeChanged);
    for (const button of document.querySelectorAll("[data-copy]"))
      button.addEventListener("click", () => copy(button));
    try {
      await unpack("plotly");
    } catch {
      root.classList.add("plain"); // an old browser: it shows the printed figures
      return;
    }
    for (const controls of document.querySelectorAll("[data-controls]")) connect(controls);
    await Promise.all(Object.keys(charts).map(draw));
    root.classList.add("ready");
  }

  start();
})();
