// SPDX-License-Identifier: BSD-3-Clause
//
// The one table of settings.  The struct, its parser, the documentation and `wherry info --config`
// all expand it, so that a new setting is a new row and nothing else.
//
// X(key, environment variable, type, default, low, high, documentation).  Values and bounds are
// written as a user would write them.  `low` and `high` bound numbers; "" is no bound.  For CHOICE,
// `low` lists the words; for LIST, those that may stand in a comma list, beside the default alone.
// Types: SIZE 64K 1M 2G; UINT; MS 500ms 5s 1m; BOOL yes no; STRING; SECRET, never shown; LIST;
// CHOICE.
#ifndef WHI_BASE_CONFIG_TABLE_H
#define WHI_BASE_CONFIG_TABLE_H

// clang-format off
#define WHI_CONFIG_TABLE(X)                                                                        \
    X(log_level, "WHERRY_LOG_LEVEL", CHOICE, "warn", "error|warn|info|debug|trace", "",            \
      "Least important messages that are logged.")                                                 \
    X(lanes, "WHERRY_LANES", LIST, "auto", "shm|stream|ucx", "",                                   \
      "Lanes that messages may use: auto, or a comma list of shm, stream and ucx.")                \
    X(ucx_dir, "WHERRY_UCX_DIR", STRING, "", "", "",                                               \
      "Folder with lib/libucp.so.0, as a wheel unpacks it; empty: as the system finds it.")        \
    X(ucx_rma, "WHERRY_UCX_RMA", CHOICE, "auto", "auto|native|served", "",                         \
      "Put and get over ucx: by UCX (native), by the owner, or by UCX where hardware guards.")     \
    X(bulk_lane, "WHERRY_BULK_LANE", CHOICE, "auto", "auto|ucx|none", "",                          \
      "Large payloads beside shm and stream: device memory by UCX, host memory too, or never.")    \
    X(progress, "WHERRY_PROGRESS", CHOICE, "adaptive", "wait|spin|adaptive", "",                   \
      "How a worker waits: sleep at once, never sleep, or spin up to spin_us and then sleep.")     \
    X(spin_us, "WHERRY_SPIN_US", UINT, "50", "", "1000000",                                        \
      "Microseconds that adaptive progress spins; at least one measured wake-up is used.")         \
    X(eager_max, "WHERRY_EAGER_MAX", SIZE, "8K", "2K", "64M",                                      \
      "Largest message that travels with its header instead of being announced.")                  \
    X(credit, "WHERRY_CREDIT", SIZE, "256K", "64K", "1T",                                          \
      "Unexpected eager bytes that each endpoint holds before its peer announces instead.")        \
    X(credit_more, "WHERRY_CREDIT_MORE", SIZE, "64M", "0", "1T",                                   \
      "What a worker's endpoints may hold beyond that, where receives wait for what is announced.") \
    X(announce_max, "WHERRY_ANNOUNCE_MAX", UINT, "65536", "1", "1048576",                          \
      "Announced messages per endpoint beyond which sends stay pending.")                          \
    X(object_head_max, "WHERRY_OBJECT_HEAD_MAX", SIZE, "128M", "4K", "1G",                         \
      "Largest head of an arriving object: its header, frame table and small frames.")             \
    X(pool_max, "WHERRY_POOL_MAX", SIZE, "256M", "0", "1T",                                        \
      "Freed memory of received large frames that is kept for reuse; 0 keeps none.")               \
    X(pool_idle, "WHERRY_POOL_IDLE", MS, "5s", "1ms", "1d",                                        \
      "Time after which such memory that was not used again is given back.")                       \
    X(stage_chunk, "WHERRY_STAGE_CHUNK", SIZE, "1M", "64K", "64M",                                 \
      "Largest piece of device memory that is staged in host memory at a time.")                   \
    X(stage_max, "WHERRY_STAGE_MAX", SIZE, "16M", "0", "1G",                                       \
      "Pinned host memory of a worker for that; 0: none, and each copy is waited for.")            \
    X(device_path, "WHERRY_DEVICE_PATH", CHOICE, "auto", "auto|staged", "",                        \
      "Device memory to a device: one copy where both sides can, or always through the host.")      \
    X(device_pack_max, "WHERRY_DEVICE_PACK_MAX", SIZE, "256M", "0", "1T",                           \
      "Device memory of a worker where layouts are packed for a device of the same host; 0: none, "  \
      "they go through host memory.")                                                               \
    X(kernel_compile, "WHERRY_KERNEL_COMPILE", BOOL, "no", "", "",                                \
      "Layouts that are often packed on devices get kernels of their own, by NVRTC where it is: "    \
      "the first such call on a machine takes some tenths of a second. "  \
      "Of the process: by the environment only.")                                                  \
    X(kernel_cache, "WHERRY_KERNEL_CACHE", STRING, "", "", "",                                     \
      "Folder that keeps such kernels, its path from /; empty: the user's cache folder; off: "     \
      "none. Of the process.")                                                                     \
    X(kernel_cache_max, "WHERRY_KERNEL_CACHE_MAX", SIZE, "64M", "1M", "1T",                        \
      "Bytes of that folder, of which the oldest files go. Of the process.")                       \
    X(ring_size, "WHERRY_RING_SIZE", SIZE, "32K", "16K", "256M",                                   \
      "First shared-memory ring of a link, per direction.")                                        \
    X(ring_max, "WHERRY_RING_MAX", SIZE, "256K", "16K", "256M",                                    \
      "Size up to which a busy shared-memory ring grows.")                                         \
    X(bulk_chunk, "WHERRY_BULK_CHUNK", SIZE, "0", "", "1G",                                        \
      "Largest chunk of a large shared-memory transfer; 0 derives it from the cache.")             \
    X(bulk_chunks, "WHERRY_BULK_CHUNKS", UINT, "4", "1", "64",                                     \
      "How many such chunks the bulk memory of one direction of a link holds.")                    \
    X(bulk_budget, "WHERRY_BULK_BUDGET", SIZE, "256M", "1M", "1T",                                 \
      "Bulk memory in all links of a worker together.")                                            \
    X(shm_read, "WHERRY_SHM_READ", CHOICE, "auto", "never|auto|always", "",                        \
      "Large messages of a local peer: copied twice, read from its memory once, or the faster.")   \
    X(stream_chunk, "WHERRY_STREAM_CHUNK", SIZE, "1M", "4K", "1G",                                 \
      "Bytes of a large message that a socket carries before other messages get a turn.")          \
    X(connect_timeout, "WHERRY_CONNECT_TIMEOUT", MS, "5s", "1ms", "1h",                            \
      "Time to reach a peer and finish the handshake.")                                            \
    X(handshake_timeout, "WHERRY_HANDSHAKE_TIMEOUT", MS, "5s", "1ms", "1h",                        \
      "Time that an incoming connection has to finish its handshake.")                             \
    X(handshake_max, "WHERRY_HANDSHAKE_MAX", UINT, "1024", "1", "1048576",                         \
      "Incoming connections that may be in their handshake at a time.")                            \
    X(close_timeout, "WHERRY_CLOSE_TIMEOUT", MS, "5s", "1ms", "1h",                                \
      "Time that an orderly close waits for the peer before it gives up.")                         \
    X(grace, "WHERRY_GRACE", MS, "30s", "0", "1d",                                                 \
      "Time that a peer has to return a buffer of a cancelled operation before its link fails.")   \
    X(peer_timeout, "WHERRY_PEER_TIMEOUT", MS, "10s", "100ms", "1d",                               \
      "Time without an answer after which a peer on another host counts as dead.")                 \
    X(secret, "WHERRY_SECRET", SECRET, "", "", "",                                                 \
      "Secret that both sides of a connection must know.")                                         \
    X(secret_file, "WHERRY_SECRET_FILE", STRING, "", "", "",                                       \
      "File whose content is the secret; other users must not be able to read it.")                \
    X(interface, "WHERRY_INTERFACE", STRING, "", "", "",                                           \
      "Network interface to which all listening and outgoing sockets are restricted.")             \
    X(local_uid, "WHERRY_LOCAL_UID", CHOICE, "same", "same|any", "",                               \
      "Users on this host whose processes may connect over local sockets.")                        \
    X(submit_max, "WHERRY_SUBMIT_MAX", UINT, "4096", "2", "1048576",                               \
      "Operations that other threads may have handed to a worker before it takes them.")           \
    X(sigusr1_dump, "WHERRY_SIGUSR1_DUMP", BOOL, "no", "", "",                                     \
      "Whether SIGUSR1 makes the workers print their state.")                                      \
    X(pes, "WHERRY_PES", UINT, "1", "1", "1024",                                                   \
      "Processing elements of each process of a job; the same in all of them.")                    \
    X(exit_timeout, "WHERRY_EXIT_TIMEOUT", MS, "5s", "1ms", "1h",                                  \
      "Time that a processing element waits for the others at the end of a job.")                  \
    X(inbox_max, "WHERRY_INBOX_MAX", SIZE, "64M", "64K", "1T",                                     \
      "Bytes of large messages between processing elements that each takes in before their turn.") \
    X(seed, "WHERRY_SEED", UINT, "0", "", "",                                                      \
      "Seed of injected faults and of everything else that is random for tests.")
// clang-format on

#endif
