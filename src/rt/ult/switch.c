// SPDX-License-Identifier: BSD-3-Clause
//
// The switch of stacks, for x86-64 (System V) and AArch64 (AAPCS64).
//
// ucontext asks the kernel for the signal mask each time.  The control words of floating point are
// compared before they are loaded, since loading takes longer than the rest.  It ends by a return, so that the processor's predictor of returns has as
// many of them as calls: where both sides have come by the same functions, as in whi_ult_pass, all that follow are foretold right.
#include "rt/ult/switch.h"

#include <stdint.h>

void whi_stack_entry(void);  // where a new stack begins

#if defined(__x86_64__)
__asm__(".text\n"
        ".p2align 4\n"
        ".globl whi_stack_switch\n"
        ".hidden whi_stack_switch\n"
        ".type whi_stack_switch, @function\n"
        "whi_stack_switch:\n"
        ".cfi_startproc\n"
        "    endbr64\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    subq $8, %rsp\n"
        "    stmxcsr (%rsp)\n"
        "    fnstcw 4(%rsp)\n"
        "    movl (%rsp), %eax\n"
        "    movzwl 4(%rsp), %ecx\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    cmpl (%rsp), %eax\n"
        "    je 1f\n"
        "    ldmxcsr (%rsp)\n"
        "1:  cmpw 4(%rsp), %cx\n"
        "    je 2f\n"
        "    fldcw 4(%rsp)\n"
        "2:  addq $8, %rsp\n"
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    ret\n"
        ".cfi_endproc\n"
        ".size whi_stack_switch, .-whi_stack_switch\n"
        ".p2align 4\n"
        ".globl whi_stack_entry\n"
        ".hidden whi_stack_entry\n"
        ".type whi_stack_entry, @function\n"
        "whi_stack_entry:\n"
        ".cfi_startproc\n"
        ".cfi_undefined rip\n"  // the outermost frame, to debuggers
        "    endbr64\n"
        "    movq %r13, %rdi\n"
        "    callq *%r12\n"
        "    ud2\n"
        ".cfi_endproc\n"
        ".size whi_stack_entry, .-whi_stack_entry\n");

// From the stack pointer upwards.
typedef struct frame {
    uint32_t mxcsr;
    uint16_t x87, unused;
    uint64_t r15, r14, r13, r12, rbx, rbp, rip;
} frame;

static void fill(frame *f, void (*fn)(void *arg), void *arg) {
    __asm__ volatile("stmxcsr %0\n\tfnstcw %1" : "=m"(f->mxcsr), "=m"(f->x87));
    f->r12 = (uintptr_t)fn;
    f->r13 = (uintptr_t)arg;
    f->rip = (uintptr_t)whi_stack_entry;
}
#elif defined(__aarch64__)
__asm__(".text\n"
        ".p2align 4\n"
        ".globl whi_stack_switch\n"
        ".hidden whi_stack_switch\n"
        ".type whi_stack_switch, %function\n"
        "whi_stack_switch:\n"
        ".cfi_startproc\n"
        "    hint #34\n"  // bti c
        "    sub sp, sp, #176\n"
        "    stp x19, x20, [sp, #0]\n"
        "    stp x21, x22, [sp, #16]\n"
        "    stp x23, x24, [sp, #32]\n"
        "    stp x25, x26, [sp, #48]\n"
        "    stp x27, x28, [sp, #64]\n"
        "    stp x29, x30, [sp, #80]\n"
        "    stp d8, d9, [sp, #96]\n"
        "    stp d10, d11, [sp, #112]\n"
        "    stp d12, d13, [sp, #128]\n"
        "    stp d14, d15, [sp, #144]\n"
        "    mrs x9, fpcr\n"
        "    str x9, [sp, #160]\n"
        "    mov x10, sp\n"
        "    str x10, [x0]\n"
        "    mov sp, x1\n"
        "    ldr x10, [sp, #160]\n"
        "    cmp x9, x10\n"
        "    b.eq 1f\n"
        "    msr fpcr, x10\n"
        "1:  ldp x19, x20, [sp, #0]\n"
        "    ldp x21, x22, [sp, #16]\n"
        "    ldp x23, x24, [sp, #32]\n"
        "    ldp x25, x26, [sp, #48]\n"
        "    ldp x27, x28, [sp, #64]\n"
        "    ldp x29, x30, [sp, #80]\n"
        "    ldp d8, d9, [sp, #96]\n"
        "    ldp d10, d11, [sp, #112]\n"
        "    ldp d12, d13, [sp, #128]\n"
        "    ldp d14, d15, [sp, #144]\n"
        "    add sp, sp, #176\n"

        "    ret\n"
        ".cfi_endproc\n"
        ".size whi_stack_switch, .-whi_stack_switch\n"
        ".p2align 4\n"
        ".globl whi_stack_entry\n"
        ".hidden whi_stack_entry\n"
        ".type whi_stack_entry, %function\n"
        "whi_stack_entry:\n"
        ".cfi_startproc\n"
        ".cfi_undefined x30\n"  // the outermost frame, to debuggers
        "    hint #36\n"        // bti j
        "    mov x0, x20\n"
        "    blr x19\n"
        "    brk #1\n"
        ".cfi_endproc\n"
        ".size whi_stack_entry, .-whi_stack_entry\n");

// From the stack pointer upwards.
typedef struct frame {
    uint64_t x19, x20, x21_28[8], x29, x30, d8_15[8], fpcr, unused;
} frame;

static void fill(frame *f, void (*fn)(void *arg), void *arg) {
    __asm__ volatile("mrs %0, fpcr" : "=r"(f->fpcr));
    f->x19 = (uintptr_t)fn;
    f->x20 = (uintptr_t)arg;
    f->x30 = (uintptr_t)whi_stack_entry;
}
#else
#error                                                                                             \
    "user-level threads are written for x86-64 and AArch64; add the switch of this processor here"
#endif

void *whi_stack_prepare(void *top, void (*fn)(void *arg), void *arg) {
    // Behind the frame the stack is aligned to 16 bytes, as it has to be before a call.
    uintptr_t end = (uintptr_t)top & ~(uintptr_t)15;
    frame *f = (frame *)(end - sizeof(frame));
    *f = (frame){0};
    fill(f, fn, arg);
    return f;
}
