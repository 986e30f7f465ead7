/* A Cortex-M3 of the MPS2 board (AN385) with semihosting: the least that runs a model in qemu. */
#include <stddef.h>
#include <stdint.h>

#include "model.h"

extern const uint8_t test_images[];
extern const int test_count;
extern uint32_t _stack, _data_load, _data, _data_end, _bss, _bss_end;

static uint32_t hash;

static void semihost(int operation, const void *argument)
{
    register int r0 __asm__("r0") = operation;
    register const void *r1 __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
}

static void print_number(const char *label, uint32_t value)
{
    char text[32];
    size_t n = 0;
    int shift;
    while (*label != 0) {
        text[n++] = *label++;
    }
    for (shift = 28; shift >= 0; shift -= 4) {
        text[n++] = "0123456789abcdef"[(value >> shift) & 15];
    }
    text[n++] = '\n';
    text[n] = 0;
    semihost(4, text); /* SYS_WRITE0 */
}

/* FNV-1a over everything stored, as 32-bit numbers. */
void qcaps_observe(int site, int step, const void *codes, size_t count, size_t size)
{
    const uint8_t *byte = codes;
    size_t i;
    (void)site, (void)step;
    for (i = 0; i < count * size; i++) {
        hash = (hash ^ byte[i]) * 16777619u;
    }
}

/* Ticks of the SysTick timer, 24 bits; with -icount they count instructions. */
static volatile uint32_t *const systick = (volatile uint32_t *)0xE000E010u;
static volatile uint32_t wraps;

void tick(void)
{
    wraps++;
}

static uint32_t now(void)
{
    return wraps * 0x1000000u + (0xFFFFFFu - systick[2]);
}

int main(void)
{
    static const uint32_t exit_well = 0x20026u; /* ADP_Stopped_ApplicationExit */
    int i;
    systick[1] = 0xFFFFFFu;
    systick[2] = 0;
    systick[0] = 7;
    while (systick[2] == 0) {
    }
    for (i = 0; i < test_count; i++) {
        const uint32_t start = now();
        hash = 2166136261u;
        print_number("class ", (uint32_t)qcaps_classify(test_images + (size_t)i * QCAPS_PIXELS));
        print_number("ticks ", now() - start);
        print_number("hash ", hash);
    }
    semihost(0x18, (const void *)(uintptr_t)exit_well);
    return 0;
}

void reset(void)
{
    uint32_t *from = &_data_load, *to;
    for (to = &_data; to < &_data_end; to++) {
        *to = *from++;
    }
    for (to = &_bss; to < &_bss_end; to++) {
        *to = 0;
    }
    main();
    for (;;) {
    }
}

__attribute__((section(".vectors"), used)) static void (*const vectors[16])(void) = {
    (void (*)(void))&_stack, reset, [15] = tick,
};
