// What the data generator of gem5's DNNMark port does (gem5-resources, src/gpu/DNNMark,
// generate_rand_data.cpp): floats straight from rand(), all of them in one vector, then one write.
// Usage: peer FILE BYTES
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    const std::size_t count = std::stoul(argv[2]) / sizeof(float);
    std::vector<float> values;
    values.reserve(count);
    srand(1);
    for (std::size_t i = 0; i < count; i++) {
        float value = rand();
        values.push_back(value);
    }
    std::ofstream file(argv[1], std::ios::out | std::ios::binary);
    file.write((const char *)values.data(), (std::streamsize)(count * sizeof(float)));
    file.close();
    return file ? 0 : 1;
}
