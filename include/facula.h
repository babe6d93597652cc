/* Facula: tensors, autograd, networks and their training on any device. The one header that a program includes. */
#ifndef FACULA_H
#define FACULA_H

#include "fa_autograd.h"
#include "fa_base.h"
#include "fa_data.h"
#include "fa_device.h"
#include "fa_functional.h"
#include "fa_graph.h"
#include "fa_io.h"
#include "fa_linalg.h"
#include "fa_memory.h"
#include "fa_nn.h"
#include "fa_recurrent.h"
#include "fa_ops.h"
#include "fa_optim.h"
#include "fa_selftest.h"
#include "fa_stream.h"
#include "fa_tensor.h"
#include "fa_transformer.h"
#include "fa_value.h"

#endif
