/* Parameters that a kernel may lack. A list of them, LIST(DO), has lines DO(type, name) and
 * WHEN(WITH_BIAS, DO(type, name)); it is written once, and declares them or names them. */
#pragma once

#define WHEN(condition, ...) WHEN_JOINED(condition, __VA_ARGS__)
#define WHEN_JOINED(condition, ...) WHEN_##condition(__VA_ARGS__)
#define WHEN_0(...)
#define WHEN_1(...) __VA_ARGS__
#define UNLESS(condition, ...) UNLESS_JOINED(condition, __VA_ARGS__)
#define UNLESS_JOINED(condition, ...) UNLESS_##condition(__VA_ARGS__)
#define UNLESS_0(...) __VA_ARGS__
#define UNLESS_1(...)

#define AND_DECLARED(type, name) , type name
#define AND_NAMED(type, name) , name
