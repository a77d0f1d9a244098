#include "core/op_spec.h"
