// SPDX-License-Identifier: BSD-3-Clause
//
// What the two ends of a channel say to each other, as bytes, little-endian.
//
// An opening goes from element to element; notes go from PE to PE, by control, in order.
#ifndef WHI_RT_CHANNEL_RECORD_H
#define WHI_RT_CHANNEL_RECORD_H

#include <stddef.h>
#include <stdint.h>

#include <wherry/status.h>

// The name of an element: its proxy's bytes.
enum { WHI_CHANNEL_NAME_SIZE = 32 };
typedef struct whi_channel_name {
    uint8_t bytes[WHI_CHANNEL_NAME_SIZE];
} whi_channel_name;

enum {
    WHI_CHANNEL_NUMBERS = 1 << 28,     // what a tag has space for
    WHI_CHANNEL_WINDOW_MAX = 1 << 16,  // messages
    WHI_CHANNEL_OPENING_SIZE = 48,
    WHI_CHANNEL_NOTE_SIZE = 16,
};

// An opening: where an end is, and by which number it wants to be sent to.
typedef struct whi_channel_opening {
    whi_channel_name from;
    uint32_t pe, number;
    uint32_t window;  // messages that it may be sent before it has matched them
} whi_channel_opening;

typedef enum whi_channel_what {
    WHI_CHANNEL_CREDIT = 1,  // count: messages matched until now
    WHI_CHANNEL_STOP,        // it receives no more
    WHI_CHANNEL_FINISH,      // count: messages that it has sent in all; there are no more
    WHI_CHANNEL_GONE,        // both have finished; its last note
    WHI_CHANNEL_REFUSE,      // there is no other end, and will be none
    WHI_CHANNEL_HOLD,  // its element is about to move.  count: messages that it has sent; it says nothing until MOVED
    WHI_CHANNEL_HELD,  // the answer.  count: messages that it has sent; it sends and says nothing until MOVED
    WHI_CHANNEL_MOVED,  // from where it is now.  count: its number there
    WHI_CHANNEL_WHATS
} whi_channel_what;

typedef struct whi_channel_note {
    uint8_t what;
    uint8_t destroyed;  // STOP: the element has ended, rather than closed the channel
    uint32_t number;    // of the end that is told
    uint64_t count;
} whi_channel_note;

void whi_channel_opening_write(const whi_channel_opening *opening, void *bytes);
void whi_channel_note_write(const whi_channel_note *note, uint8_t control, void *bytes);

// Both return WH_EPROTOCOL when the bytes are none.  The first byte of a note is the kind of control.
WH_CHECK wh_status whi_channel_opening_read(const void *bytes, size_t size, uint32_t pes,
                                            whi_channel_opening *opening);
WH_CHECK wh_status whi_channel_note_read(const void *bytes, size_t size, whi_channel_note *note);

#endif
