// SPDX-License-Identifier: BSD-3-Clause
//
// The whole public API.  Each header says what its object is, who may call it, and who owns what.
#ifndef WHERRY_WHERRY_H
#define WHERRY_WHERRY_H

#include <wherry/am.h>
#include <wherry/balance.h>
#include <wherry/channel.h>
#include <wherry/chare.h>
#include <wherry/checkpoint.h>
#include <wherry/coll.h>
#include <wherry/context.h>
#include <wherry/detect.h>
#include <wherry/endpoint.h>
#include <wherry/layer.h>
#include <wherry/listener.h>
#include <wherry/log.h>
#include <wherry/mem.h>
#include <wherry/object.h>
#include <wherry/pack.h>
#include <wherry/post.h>
#include <wherry/reduce.h>
#include <wherry/request.h>
#include <wherry/rma.h>
#include <wherry/rt.h>
#include <wherry/section.h>
#include <wherry/status.h>
#include <wherry/tag.h>
#include <wherry/type.h>
#include <wherry/worker.h>

#endif
