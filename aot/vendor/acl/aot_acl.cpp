/* SPDX-License-Identifier: MIT-0 */
/* Functions of Arm Compute Library 20.08 for Arm's vector unit; see aot_acl.h. */
#include "aot_acl.h"

#include <arm_compute/core/Helpers.h>
#include <arm_compute/core/Window.h>
#include <arm_compute/runtime/NEON/NEFunctions.h>
#include <arm_compute/runtime/NEON/NEScheduler.h>
#include <arm_compute/runtime/Tensor.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <stdexcept>
#include <vector>

#ifndef AOT_ACL_THREADS
#define AOT_ACL_THREADS 1
#endif

namespace {

using namespace arm_compute;
using Curve = ActivationLayerInfo::ActivationFunction;

/* A function with its tensors: operands, result, weights, bias; and what follows in place of y. */
struct Object {
    Tensor a, b, y, w, bias;
    std::unique_ptr<IFunction> function, after;
};

void check(const Status &status) {
    if (!status)
        throw std::runtime_error(status.error_description());
}

/* Copies a dense array to a tensor with padding, or back. */
void copy(Tensor &tensor, char *dense, bool back) {
    Window rows;
    rows.use_tensor_dimensions(tensor.info()->tensor_shape(), Window::DimY);
    Iterator row(&tensor, rows);
    const std::size_t bytes = tensor.info()->dimension(0) * tensor.info()->element_size();
    execute_window_loop(
        rows,
        [&](const Coordinates &) {
            if (back)
                std::memcpy(dense, row.ptr(), bytes);
            else
                std::memcpy(row.ptr(), dense, bytes);
            dense += bytes;
        },
        row);
}

/* Lets a tensor have the elements at `data`. */
void place(Tensor &tensor, const void *data, bool result = false) {
    char *const dense = static_cast<char *>(const_cast<void *>(data));
    if (!tensor.info()->has_padding()) {
        check(tensor.allocator()->import_memory(dense));
        return;
    }
    if (tensor.buffer() == nullptr)
        tensor.allocator()->allocate();
    if (!result)
        copy(tensor, dense, false);
}

/* Extents come in the order of the library: the last axis first. */
void shaped(Tensor &tensor, std::initializer_list<int32_t> extents) {
    TensorShape shape;
    std::size_t axis = 0;
    for (const int32_t extent : extents)
        shape.set(axis++, static_cast<std::size_t>(extent), false);
    TensorInfo info(shape, 1, DataType::F32);
    tensor.allocator()->init(info.set_data_layout(DataLayout::NHWC));
}

/* The values of a tensor are quantised with these scales, of which there are one or several. */
void quantised(Tensor &tensor, const float *scales, std::size_t count, int32_t zero) {
    const std::vector<float> each(scales, scales + count);
    const bool one = count == 1;
    tensor.info()->set_data_type(one ? DataType::QASYMM8_SIGNED : DataType::QSYMM8_PER_CHANNEL);
    tensor.info()->set_quantization_info(one ? QuantizationInfo(each[0], zero)
                                             : QuantizationInfo(each));
}

/* Makes an object by `configure`, which gets it; errors of the library are AOT_VENDOR. */
template <typename Configure> aot_status made(void **slots, Configure configure) {
    try {
        NEScheduler::get().set_num_threads(AOT_ACL_THREADS);
        std::unique_ptr<Object> object(new Object());
        configure(*object);
        slots[0] = object.release();
        return AOT_OK;
    } catch (const std::exception &) {
        return AOT_VENDOR;
    }
}

/* Checks the infos of tensors, then configures a function of the library with the tensors. */
template <typename Function, typename... More>
std::unique_ptr<IFunction> valid(Tensor *a, Tensor *y, More... more) {
    std::unique_ptr<Function> function(new Function());
    check(Function::validate(a->info(), y->info(), more...));
    function->configure(a, y, more...);
    return std::unique_ptr<IFunction>(std::move(function));
}

template <typename Function, typename... More>
std::unique_ptr<IFunction> valid_pair(Tensor *a, Tensor *b, Tensor *y, More... more) {
    std::unique_ptr<Function> function(new Function());
    check(Function::validate(a->info(), b->info(), y->info(), more...));
    function->configure(a, b, y, more...);
    return std::unique_ptr<IFunction>(std::move(function));
}

template <typename Function, typename... More>
std::unique_ptr<IFunction> valid_layer(Object &object, Tensor *bias, More... more) {
    std::unique_ptr<Function> function(new Function());
    check(Function::validate(object.a.info(), object.w.info(), bias ? bias->info() : nullptr,
                             object.y.info(), more...));
    function->configure(&object.a, &object.w, bias, &object.y, more...);
    return std::unique_ptr<IFunction>(std::move(function));
}

/* The clamp between two bounds. */
ActivationLayerInfo clamp(float low, float high) {
    const float most = std::numeric_limits<float>::max();
    if (std::isinf(low) && std::isinf(high))
        return ActivationLayerInfo();
    if (low == 0.0f && std::isinf(high))
        return ActivationLayerInfo(Curve::RELU);
    if (low == 0.0f)
        return ActivationLayerInfo(Curve::BOUNDED_RELU, high);
    return ActivationLayerInfo(Curve::LU_BOUNDED_RELU, std::min(high, most), std::max(low, -most));
}

/* Lets a function be followed by the clamp between two bounds. */
void clamped(Object &object, float low, float high) {
    const ActivationLayerInfo info = clamp(low, high);
    std::unique_ptr<NEActivationLayer> function(new NEActivationLayer());
    if (!info.enabled())
        return;
    check(NEActivationLayer::validate(object.y.info(), nullptr, info));
    function->configure(&object.y, nullptr, info);
    object.after = std::move(function);
}

template <typename Params> PadStrideInfo window(const Params *p) {
    const auto at = [](int32_t v) { return static_cast<unsigned>(v); };
    return PadStrideInfo(at(p->stride[1]), at(p->stride[0]), at(p->pad[3]), at(p->pad[1]),
                         at(p->pad[0]), at(p->pad[2]), DimensionRoundingType::FLOOR);
}

Size2D extents(const int32_t *size) {
    return Size2D(static_cast<std::size_t>(size[1]), static_cast<std::size_t>(size[0]));
}

} // namespace

aot_status aot_acl_conv(void **slots, const void *w, const void *bias, const float *scales,
                        const aot_acl_conv_params *p) {
    return made(slots, [&](Object &o) {
        const int32_t in = p->groups * p->channels[0], out = p->groups * p->channels[1];
        Tensor *const added = bias != nullptr ? &o.bias : nullptr;
        const ActivationLayerInfo curve = clamp(p->low, p->high);
        shaped(o.a, {in, p->size[1], p->size[0], p->batch});
        shaped(o.y, {out, p->result[1], p->result[0], p->batch});
        shaped(o.bias, {out});
        if (p->groups > 1)
            shaped(o.w, {out, p->kernel[1], p->kernel[0]});
        else
            shaped(o.w, {in, p->kernel[1], p->kernel[0], out});
        if (p->type != 0) {
            quantised(o.a, &p->scale[0], 1, p->zero[0]);
            quantised(o.y, &p->scale[1], 1, p->zero[1]);
            quantised(o.w, scales, static_cast<std::size_t>(out), 0);
            o.bias.info()->set_data_type(DataType::S32);
        }
        if (p->groups > 1)
            o.function = valid_layer<NEDepthwiseConvolutionLayer>(
                o, added, window(p), static_cast<unsigned>(p->channels[1]), curve,
                extents(p->dilation));
        else
            o.function = valid_layer<NEConvolutionLayer>(o, added, window(p), WeightsInfo(),
                                                         extents(p->dilation), curve);
        place(o.w, w);
        if (added != nullptr)
            place(o.bias, bias);
        o.function->prepare();
    });
}

aot_status aot_acl_pool(void **slots, const aot_acl_pool_params *p) {
    return made(slots, [&](Object &o) {
        const PoolingType type = p->kind == 1 ? PoolingType::MAX : PoolingType::AVG;
        shaped(o.a, {p->channels, p->size[1], p->size[0], p->batch});
        shaped(o.y, {p->channels, p->result[1], p->result[0], p->batch});
        const PoolingLayerInfo info =
            p->kind == 2
                ? PoolingLayerInfo(type, DataLayout::NHWC)
                : PoolingLayerInfo(type, extents(p->kernel), DataLayout::NHWC, window(p), true);
        o.function = valid<NEPoolingLayer>(&o.a, &o.y, info);
        clamped(o, p->low, p->high);
    });
}

aot_status aot_acl_pair(void **slots, const aot_acl_pair_params *p) {
    return made(slots, [&](Object &o) {
        Tensor *const a = &o.a, *const b = &o.b, *const y = &o.y;
        const int32_t *const extents[] = {p->a, p->b, p->y};
        for (int32_t i = 0; i < 3; ++i) {
            Tensor &tensor = *std::array<Tensor *, 3>{a, b, y}[static_cast<std::size_t>(i)];
            TensorShape shape;
            for (int32_t axis = 0; axis < p->rank; ++axis)
                shape.set(static_cast<std::size_t>(axis),
                          static_cast<std::size_t>(extents[i][p->rank - 1 - axis]), false);
            tensor.allocator()->init(TensorInfo(shape, 1, DataType::F32));
            if (p->type != 0)
                quantised(tensor, &p->scale[i], 1, p->zero[i]);
        }
        const ConvertPolicy policy = ConvertPolicy::SATURATE;
        if (p->kind == 0)
            o.function = valid_pair<NEArithmeticAddition>(a, b, y, policy);
        else if (p->kind == 1)
            o.function = valid_pair<NEArithmeticSubtraction>(a, b, y, policy);
        else if (p->kind == 2)
            o.function = valid_pair<NEPixelWiseMultiplication>(a, b, y, 1.0f, policy,
                                                               RoundingPolicy::TO_ZERO);
        else if (p->kind == 3)
            o.function = valid_pair<NEElementwiseDivision>(a, b, y);
        else if (p->kind == 4)
            o.function = valid_pair<NEElementwiseMax>(a, b, y);
        else
            o.function = valid_pair<NEElementwiseMin>(a, b, y);
        clamped(o, p->low, p->high);
    });
}

aot_status aot_acl_unary(void **slots, const aot_acl_unary_params *p) {
    enum { SOFTMAX = 7, CLAMP = 8 };
    static const Curve curves[] = {Curve::ABS,  Curve::HARD_SWISH, Curve::LOGISTIC,  Curve::TANH,
                                   Curve::SQRT, Curve::ELU,        Curve::LEAKY_RELU};
    return made(slots, [&](Object &o) {
        shaped(o.a, {p->channels, p->rows});
        shaped(o.y, {p->channels, p->rows});
        if (p->kind == SOFTMAX)
            o.function = valid<NESoftmaxLayer>(&o.a, &o.y, 1.0f);
        else if (p->kind == CLAMP)
            o.function = valid<NEActivationLayer>(&o.a, &o.y, clamp(p->alpha, p->beta));
        else
            o.function = valid<NEActivationLayer>(
                &o.a, &o.y, ActivationLayerInfo(curves[p->kind], p->alpha, p->beta));
    });
}

aot_status aot_acl_run(void **slots, void *y, const void *a, const void *b) {
    try {
        Object &o = *static_cast<Object *>(slots[0]);
        place(o.a, a);
        if (b != nullptr)
            place(o.b, b);
        place(o.y, y, true);
        o.function->run();
        if (o.after != nullptr)
            o.after->run();
        if (o.y.info()->has_padding())
            copy(o.y, static_cast<char *>(y), true);
        return AOT_OK;
    } catch (const std::exception &) {
        return AOT_VENDOR;
    }
}

void aot_acl_release(void **slots) {
    delete static_cast<Object *>(slots[0]);
    slots[0] = nullptr;
}
