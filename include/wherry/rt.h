// SPDX-License-Identifier: BSD-3-Clause
//
// The runtime: the processes of a job, and their processing elements.
//
// A job is what one launcher has started: `wherry run -n 4 prog`, mpiexec, mpirun, srun.  A program that
// is started by itself is a job of one process.  Each process has the same number of processing
// elements (PEs); PE p lives in process p / K.  A PE is a worker and a scheduler on one thread: messages that
// are sent to it are handled there, one after the other, none interrupted by another.
//
// Threads: a wh_pe belongs to the thread that runs it, and what takes a wh_pe is for that thread, in
// handlers, timers, idle functions and user-level threads.  wh_pe_call is for all others.
#ifndef WHERRY_RT_H
#define WHERRY_RT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <wherry/endpoint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct wh_rt wh_rt;  // this process's part of the job
typedef struct wh_pe wh_pe;

// A process of the job was lost: killed, or cut off.  Called once for each of its PEs that this PE had to do with, in
// the PE's thread; `sentence` is valid inside the call.
typedef void (*wh_lost_pe_fn)(wh_pe *pe, int lost, const char *sentence, void *arg);

typedef struct wh_rt_opts {  // zero in any field means its default
    size_t size;             // of the caller's struct, so that it can grow
    int pes;                 // PEs of this process, the same in all; default: the setting `pes`
    wh_context
        *context;  // borrowed; default: one of its own, with a secret of the job's own; one of the
                   // caller's needs the same secret in all processes
    wh_lost_pe_fn lost;  // default: the job ends with status 1
    void *lost_arg;
    size_t stack;                 // bytes of a user-level thread's stack; default: 256 KiB
    const char *const *settings;  // of the context of its own: "key=value" strings, NULL-terminated
} wh_rt_opts;
#ifndef __cplusplus
#define WH_RT_OPTS(...) (&(wh_rt_opts){.size = sizeof(wh_rt_opts), __VA_ARGS__})
#endif

// wh_rt_init joins the job.  All its processes must call it, each once: what a launcher says can be asked only once.
//
// The caller ends it with wh_rt_finish.  WH_EPEER, WH_EPROTOCOL, WH_ENOTSUP: there is a launcher that cannot be spoken to.
WH_API WH_CHECK wh_status wh_rt_init(const wh_rt_opts *opts, wh_rt **rt);

// What the job consists of.  Any thread.
WH_API int wh_rt_rank(const wh_rt *rt);
WH_API int wh_rt_processes(const wh_rt *rt);
WH_API int wh_rt_pes(const wh_rt *rt);               // of the job
WH_API int wh_rt_local_pes(const wh_rt *rt);         // of this process
WH_API const char *wh_rt_launcher(const wh_rt *rt);  // how it was started: "PMI-1", "PMIx", "none"
WH_API wh_context *wh_rt_context(const wh_rt *rt);

// wh_rt_run runs the PEs of this process until wh_pe_exit, the first of them on the calling thread.  `main_fn` is called
// on each, as a user-level thread, so that it may wait; its return ends nothing.
//
// *status is what the job ended with, for exit().  Once for each wh_rt.
typedef void (*wh_pe_main_fn)(wh_pe *pe, void *arg);
WH_API WH_CHECK wh_status wh_rt_run(wh_rt *rt, wh_pe_main_fn main_fn, void *arg, int *status);

// wh_rt_run in pieces, for programs with an event loop of their own: begin; then, on the calling thread, turns of the first PE
// until it has ended, and sleeps on the worker's descriptor (wh_worker_fd) when wh_pe_arm says so; then end.
WH_API WH_CHECK wh_status wh_rt_begin(wh_rt *rt, wh_pe_main_fn main_fn, void *arg, wh_pe **first);
WH_API WH_CHECK wh_status wh_rt_end(wh_rt *rt, int *status);

// wh_pe_turn does what there is to do, once, and returns how much that was.  wh_pe_arm says whether the PE may sleep now,
// for at most *timeout_ms, negative for no limit; WH_EBUSY: there is something to do.
WH_API unsigned wh_pe_turn(wh_pe *pe);
WH_API WH_CHECK wh_status wh_pe_arm(wh_pe *pe, int *timeout_ms);
WH_API bool wh_pe_ended(const wh_pe *pe);

// wh_pe_step does what there is to do, and when that is nothing, waits until there is something, as the worker waits (worker.h).
// For threads that wait in a loop of their own for what messages bring.  Returns false, at once, when the PE has ended.
WH_API bool wh_pe_step(wh_pe *pe);

// wh_rt_abort asks the launcher to end all processes of the job with this status, 1 for 0; whoever calls it should exit.
WH_API void wh_rt_abort(wh_rt *rt, int status);

// wh_rt_finish leaves the job and frees all.  A process that ends before it has failed, in the launcher's eyes.
WH_API void wh_rt_finish(wh_rt *rt);

// ---- Processing elements.

WH_API wh_rt *wh_pe_rt(const wh_pe *pe);
WH_API int wh_pe_number(const wh_pe *pe);
WH_API wh_worker *
wh_pe_worker(const wh_pe *pe);  // borrowed; its active message ids from 0xFF00 on are the runtime's

// wh_pe_here returns the PE that runs on this thread, or NULL.
WH_API wh_pe *wh_pe_here(void);

// wh_pe_exit ends the whole job, with this exit status: each PE stops as soon as what it is handling returns.  The first
// call counts.  When a handler does not return within the setting `exit_timeout`, the launcher ends the job.
WH_API void wh_pe_exit(wh_pe *pe, int status);

// wh_pe_call has `fn` called in the PE's thread, unless the job ends before.  Any thread.
WH_API WH_CHECK wh_status wh_pe_call(wh_pe *pe, void (*fn)(wh_pe *pe, void *arg), void *arg);

// wh_pe_name_span says what the entry, handler or user-level thread that runs now is called in a timeline (`wherry run --trace`),
// instead of its class and its name: `name`, and behind a point `part`, unless that is NULL.  The strings are kept, not copied, until it
// returns; the first call in it counts.  Without a timeline nothing happens.  On the PE's thread.
WH_API void wh_pe_name_span(wh_pe *pe, const char *name, const char *part);

// wh_pe_dump prints what the PE has to do and waits for.  wh_worker_dump prints it behind what it says of the PE's worker, so that a
// signal can ask for it (config `sigusr1_dump`, `wherry run --dump`).
WH_API void wh_pe_dump(const wh_pe *pe, FILE *file);

// wh_pe_on_dump has `fn` print, in wh_pe_dump, what the program itself keeps and waits for; NULL: nothing more.  It is called on the
// PE's thread, within a worker's progress, sends nothing, and returns what it has found.  Where nothing is left to do wh_pe_dump asks
// whether `exit_call` was forgotten, a string that is kept, not copied; NULL: "wh_pe_exit".  On the PE's thread.
typedef enum wh_dump_found {
    WH_DUMP_NOTHING,
    WH_DUMP_WAITS,   // something waits for what others do
    WH_DUMP_GOES_ON  // something will go on by itself
} wh_dump_found;
typedef wh_dump_found (*wh_pe_dump_fn)(const wh_pe *pe, FILE *file, void *arg);
WH_API void wh_pe_on_dump(wh_pe *pe, wh_pe_dump_fn fn, void *arg, const char *exit_call);

// ---- Messages.
//
// Messages from one PE to another arrive in the order in which they were sent, and are handled in that order among those of
// the same priority.

#define WH_PE_HEAD_MAX 512        // bytes of a message's head
#define WH_PE_HANDLERS_MAX 65534  // ids of handlers, from 0 on; those above are the runtime's own

typedef struct wh_pe_msg {  // made by the library
    int source;             // PE
    uint16_t handler;
    int32_t priority;
    const void *head;  // aligned to 8, as `data` to 16
    size_t head_size;
    void *data;
    size_t size;
} wh_pe_msg;

// The handler of an id.  `msg` is the library's again when it returns, unless it has called wh_pe_msg_keep.
typedef void (*wh_pe_msg_fn)(wh_pe *pe, wh_pe_msg *msg, void *arg);

// wh_pe_set_handler sets the handler of `id`; NULL unsets it.  A message without a handler ends the job with an error, as
// it can only be a mistake: set handlers in `main_fn`, before the first message, or use wh_coll_barrier.
// WH_EINVAL: the id is not below WH_PE_HANDLERS_MAX.  WH_ENOMEM.
WH_API WH_CHECK wh_status wh_pe_set_handler(wh_pe *pe, uint16_t id, wh_pe_msg_fn fn, void *arg);

// wh_pe_send sends a message to any PE, its own included.  Head and data are copied.  Lower priorities are handled first; 0 is
// the usual one.  WH_EINVAL: there is no such PE, the head is too large, or the handler is not below WH_PE_HANDLERS_MAX.
//
// There is no limit to what a slow PE is sent: it takes in a bounded number of bytes, and what is beyond is kept here.
WH_API WH_CHECK wh_status wh_pe_send(wh_pe *pe, int dest, uint16_t handler, const void *head,
                                     size_t head_size, const void *data, size_t size,
                                     int32_t priority);

// wh_pe_msg_new makes a message of the caller's, whose data it fills in; wh_pe_msg_send gives it to a PE, without copying
// within a process, and wh_pe_msg_free throws it away.  Also for messages that were kept.  The message is given up, whatever
// wh_pe_msg_send returns.
WH_API WH_CHECK wh_status wh_pe_msg_new(wh_pe *pe, uint16_t handler, const void *head,
                                        size_t head_size, size_t size, wh_pe_msg **msg);
WH_API WH_CHECK wh_status wh_pe_msg_send(wh_pe *pe, int dest, wh_pe_msg *msg);
WH_API void wh_pe_msg_free(wh_pe *pe, wh_pe_msg *msg);

// wh_pe_msg_keep makes a message that is being handled the caller's.
WH_API void wh_pe_msg_keep(wh_pe_msg *msg);

// ---- Buffers: memory of any kind and layout, sent from where it is and received to where it belongs.
//
// Both sides name the transfer by a tag: what it is for in the upper 4 bits (WH_PE_TAG_*), the sending PE in the next 32,
// and a number that both know.  Tags of one pair match in the order of the sends.

enum { WH_PE_TAG_USER = 1, WH_PE_TAG_BUFFER, WH_PE_TAG_CHANNEL, WH_PE_TAG_COLL };
#define WH_PE_TAG(use, source, number)                                                             \
    ((uint64_t)(use) << 60 | (uint64_t)(uint32_t)(source) << 28 |                                  \
     ((uint64_t)(number) & (((uint64_t)1 << 28) - 1)))

// wh_pe_next_tag returns a tag of WH_PE_TAG_BUFFER for a buffer to `dest` that no other one under way to it has.
WH_API WH_CHECK wh_status wh_pe_next_tag(wh_pe *pe, int dest, uint64_t *tag);

// wh_pe_send_buffer and wh_pe_recv_buffer are wh_tag_send and wh_tag_recv (tag.h) between PEs; the receive may come before
// its sender has connected.  It fails with WH_EPEER when the sender is lost.  A send completes when its buffer may be used again.
WH_API WH_CHECK wh_status wh_pe_send_buffer(wh_pe *pe, int dest, const void *buf, size_t size,
                                            uint64_t tag, const wh_op_opts *opts, wh_request **req);
WH_API WH_CHECK wh_status wh_pe_recv_buffer(wh_pe *pe, int source, void *buf, size_t size,
                                            uint64_t tag, const wh_op_opts *opts, wh_request **req);

// wh_pe_endpoint returns the endpoint by which this PE sends data to one of another process, for a layer with messages of its own
// (am.h): opened when it is the first time, borrowed until the job ends.  WH_ENOTSUP: `dest` is in this process.
WH_API WH_CHECK wh_status wh_pe_endpoint(wh_pe *pe, int dest, wh_endpoint **ep);

// ---- What a PE does beside messages.

// wh_pe_after calls `fn` once, when `delay_us` microseconds have passed.  *id, if asked for, is for wh_pe_cancel.
typedef void (*wh_pe_fn)(wh_pe *pe, void *arg);
WH_API WH_CHECK wh_status wh_pe_after(wh_pe *pe, uint64_t delay_us, wh_pe_fn fn, void *arg,
                                      uint32_t *id);

// wh_pe_on_idle has `fn` called whenever the PE has nothing else to do, until it returns false: then no more.
typedef bool (*wh_pe_idle_fn)(wh_pe *pe, void *arg);
WH_API WH_CHECK wh_status wh_pe_on_idle(wh_pe *pe, wh_pe_idle_fn fn, void *arg, uint32_t *id);

// wh_pe_cancel forgets a timer or an idle function.  WH_ENOTFOUND: it has been called, or is none.
WH_API WH_CHECK wh_status wh_pe_cancel(wh_pe *pe, uint32_t id);

// wh_pe_on_quiescence calls `fn` on this PE once, when no PE of the job has a message to handle and none is under way.  Suspended
// threads, timers, buffers and messages that were kept do not count.
//
// When a PE is lost nobody knows what was under way to it, so there is no quiescence any more: WH_EPEER if this PE knows of a loss,
// and where somebody waits already, or asks a PE that knows of none, the job ends with an error, unless wh_rt_opts.lost has called
// wh_pe_exit.  A program that outlives losses counts its own messages.
WH_API WH_CHECK wh_status wh_pe_on_quiescence(wh_pe *pe, wh_pe_fn fn, void *arg);

// wh_pe_on_stream has `fn` called on this PE once, in one of its later turns, when all that was submitted to a stream of a device so
// far has run: what a kernel has computed can be sent then.  `status` is WH_OK, or the error of that work.  For kind and stream see
// wh_worker_flush_stream.
typedef void (*wh_pe_stream_fn)(wh_pe *pe, wh_status status, void *arg);
WH_API WH_CHECK wh_status wh_pe_on_stream(wh_pe *pe, wh_mem_kind kind, void *stream,
                                          wh_pe_stream_fn fn, void *arg);

// ---- User-level threads: functions that may wait while the PE handles other messages.

// wh_pe_spawn starts one; it runs at once, until it waits or returns.
WH_API WH_CHECK wh_status wh_pe_spawn(wh_pe *pe, wh_pe_fn fn, void *arg);

// A wh_wait is something that a user-level thread waits for, and others make come true.  It lies in the caller's memory.
typedef struct wh_wait {
    void *thread;  // the library's: zero at first
    bool done;
    wh_result result;  // of wh_wait_done
} wh_wait;

// wh_pe_wait suspends the user-level thread that calls it until `wait` is done.  WH_EINVAL: not called by one;
// WH_EBUSY: another one waits for it.  Threads that wait when the job ends do not come back.
WH_API WH_CHECK wh_status wh_pe_wait(wh_pe *pe, wh_wait *wait);

// wh_wait_done is a `done` of operations (wh_op_opts) whose `arg` is a wh_wait: its result is copied.  wh_pe_resume ends a
// wait without a result.
WH_API void wh_wait_done(wh_request *req, const wh_result *result, void *arg);
WH_API void wh_pe_resume(wh_pe *pe, wh_wait *wait);

// wh_pe_yield lets the PE do what else there is.  Only in user-level threads; elsewhere it does nothing.  Threads that yield when
// the job ends do not come back.
WH_API void wh_pe_yield(wh_pe *pe);

#ifdef __cplusplus
}
#endif
#endif
