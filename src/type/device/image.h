// SPDX-License-Identifier: BSD-3-Clause
//
// The form of a layout that kernels read: made once per plan, and copied to each device that needs it.
//
// Only what the loops and one run cannot say has tables (args.h).  They belong to the plan and are freed with it; the
// driver's free waits for kernels that still read them.  Any thread.
#ifndef WHI_TYPE_DEVICE_IMAGE_H
#define WHI_TYPE_DEVICE_IMAGE_H

#include "mem/mem.h"
#include "type/device/args.h"
#include "type/plan.h"

typedef struct whi_device_image whi_device_image;

// whi_device_image_of returns the image of a plan's normal form, made if need be.  `element_of` says what predefined types
// are to arithmetic, as WHI_DEVICE_ELEMENT has it.  WH_ENOMEM.
WH_CHECK wh_status whi_device_image_of(const whi_plan *plan, whi_d32 (*element_of)(wh_type_id),
                                       whi_device_image **image);

// whi_device_image_there returns where the tables are on a device, copied there if need be; 0: it has none.
WH_CHECK wh_status whi_device_image_there(whi_device_image *image, const whi_mem_ops *ops,
                                          int device, whi_d64 *tables);

// whi_device_image_bits returns all lengths and distances of the layout, or-ed: words of 2^n bytes fit where the low n bits
// are 0.
uint64_t whi_device_image_bits(const whi_device_image *image);

// whi_device_image_free ends an image; NULL is allowed.
void whi_device_image_free(whi_device_image *image);

// whi_divisor_make readies a divisor, which is not 0.
whi_divisor whi_divisor_make(uint64_t by);

// whi_device_loop_make makes a loop of a layout.
whi_device_loop whi_device_loop_make(const whi_dim *dim);

#endif
