/*
 * sanitizer.h: which sanitizer this build has, in one spelling for gcc and clang.
 *
 * Everyone may include it; ASAN_BUILD and TSAN_BUILD are 0 or 1.  For code that must tell a
 * sanitizer what it cannot see (stacks, fences), never to change what the code does.
 */
#ifndef FORGE_BASE_SANITIZER_H
#define FORGE_BASE_SANITIZER_H

#ifdef __has_feature
#define SANITIZER_FEATURE(name) __has_feature(name)
#else
#define SANITIZER_FEATURE(name) 0
#endif

#if defined(__SANITIZE_ADDRESS__) || SANITIZER_FEATURE(address_sanitizer)
#define ASAN_BUILD 1
#else
#define ASAN_BUILD 0
#endif

#if defined(__SANITIZE_THREAD__) || SANITIZER_FEATURE(thread_sanitizer)
#define TSAN_BUILD 1
#else
#define TSAN_BUILD 0
#endif

#endif
