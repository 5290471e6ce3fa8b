// What every fuzzer is: a function of bytes that must return, whatever they are. libFuzzer calls it
// with ever new ones, replay_main.cc with the files of a corpus.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
