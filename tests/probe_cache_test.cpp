// Which device a path is on, and results that are kept for it.
#include "storage/device_probe.h"

#include "support/temp_file.h"

#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#ifdef __linux__
#include <sys/sysmacros.h>
#endif

namespace sluice::storage {
namespace {

using test::ScratchDir;

/// A result with something in every field.
ProbeResult example(const std::string &path) {
    return {.device = identify_device(path).value(),
            .engine_version = "0.1.0",
            .date = "2026-01-31T12:00:00Z",
            .direct = true,
            .slice_bytes = 442368,
            .curves = {{ReadEngineKind::Threads, 442368, {{1, 812.5}, {2, {}, "no time was left"}}},
                       {ReadEngineKind::Uring, small_read_bytes, {{64, 913.0}}}},
            .slices = ReadChoice{ReadEngineKind::Threads, 1, 812.5},
            .small = ReadChoice{ReadEngineKind::Uring, 64, 913.0},
            .machine = {.cores = 2,
                        .memory_one_core = 10.5,
                        .compute_all_cores = 8.25,
                        .unmeasured = "interrupted"},
            .notes = {"one", "two \"quoted\""}};
}

std::filesystem::path only_file(const ScratchDir &dir) {
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir.path()), {}), 1);
    return std::filesystem::directory_iterator(dir.path())->path();
}

TEST(ProbeJson, GoesThereAndBack) {
    const ScratchDir dir;
    ProbeResult result = example(dir.path());
    EXPECT_EQ(from_json(to_json(result)).value(), result);
    result.slices.reset();
    result.small.reset();
    EXPECT_EQ(from_json(to_json(result)).value(), result);
}

TEST(ProbeJson, WhatMakesNoSenseIsRefused) {
    const ScratchDir dir;
    const std::string good = to_json(example(dir.path()));
    const auto with = [&good](const std::string &old, const std::string &changed) {
        std::string text = good;
        const size_t at = text.find(old);
        EXPECT_NE(at, std::string::npos) << old;
        return text.replace(at, old.size(), changed);
    };
    EXPECT_TRUE(from_json(good));
    for (const std::string &bad :
         {std::string(), std::string("null"), std::string("[]"), std::string("{}"),
          good.substr(0, good.size() / 2), with("\"format\": 1", "\"format\": 2"),
          with("\"width\": 1", "\"width\": 0"), with("\"width\": 64", "\"width\": 100000"),
          with("812.5", "-1"), with("\"threads\"", "\"magic\""), with("812.5", "\"fast\""),
          with("\"best\"", "\"worst\""), std::string(100000, '[')}) {
        const auto result = from_json(bad);
        ASSERT_FALSE(result) << bad.substr(0, 200);
        EXPECT_EQ(result.error().code, ErrorCode::InvalidFormat);
    }
}

TEST(ProbeCache, KeepsOneResultForEachDevice) {
    const ScratchDir dir;
    const std::string cache = dir / "deep/down";
    EXPECT_FALSE(load_probe(dir.path(), cache));
    ProbeResult result = example(dir.path());
    ASSERT_TRUE(save_probe(result, cache));
    EXPECT_EQ(load_probe(dir.path(), cache), result);
    EXPECT_EQ(load_probe(dir.write("file", "x"), cache), result) << "a file on the same device";
    result.date = "2026-02-01T00:00:00Z";
    const std::string path = save_probe(result, cache).value();
    EXPECT_EQ(load_probe(dir.path(), cache), result);
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(cache), {}), 1);
    EXPECT_TRUE(std::filesystem::is_regular_file(path));
}

TEST(ProbeCache, AnotherDeviceUnderTheSameNumberHasNoResult) {
    const ScratchDir dir;
    ProbeResult result = example(dir.path());
    result.device.serial += "another";
    ASSERT_TRUE(save_probe(result, dir.path()));
    EXPECT_FALSE(load_probe(dir.path(), dir.path()));
}

TEST(ProbeCache, DamagedFilesAreIgnoredAndReplaced) {
    const ScratchDir dir;
    const ProbeResult result = example(dir.path());
    ASSERT_TRUE(save_probe(result, dir.path()));
    const std::string name = only_file(dir).filename();
    for (const char *damage : {"", "{", "\xff\xfe", "{\"format\": 1}"}) {
        dir.write(name, damage);
        EXPECT_FALSE(load_probe(dir.path(), dir.path())) << damage;
    }
    std::filesystem::remove(dir / name);
    std::filesystem::create_directory(dir / name);
    EXPECT_FALSE(load_probe(dir.path(), dir.path()));
    std::filesystem::remove(dir / name);
    ASSERT_TRUE(save_probe(result, dir.path()));
    EXPECT_EQ(load_probe(dir.path(), dir.path()), result);
}

TEST(ProbeCache, FailureToSaveLeavesNothingBehind) {
    const ScratchDir dir;
    const ProbeResult result = example(dir.path());
    ASSERT_TRUE(save_probe(result, dir.path()));
    const std::string name = only_file(dir).filename();
    std::filesystem::remove(dir / name);
    std::filesystem::create_directory(dir / name); // nothing can be renamed to this
    const auto saved = save_probe(result, dir.path());
    ASSERT_FALSE(saved);
    EXPECT_NE(saved.error().message.find(dir / name), std::string::npos);
    EXPECT_EQ(only_file(dir).filename(), name);
    EXPECT_FALSE(save_probe(result, dir.write("file", "x") + "/below"));
    EXPECT_FALSE(save_probe(result, ""));
}

TEST(ProbeCache, EnvironmentSaysWhereItIs) {
    const auto with = [](const char *cache, const char *home) {
        ::setenv("XDG_CACHE_HOME", cache, 1);
        ::setenv("HOME", home, 1);
        return user_cache_directory();
    };
    EXPECT_EQ(with("/cache", "/home/me"), "/cache/sluice");
    EXPECT_EQ(with("", "/home/me"), "/home/me/.cache/sluice");
    EXPECT_EQ(with("not/absolute", "/home/me"), "/home/me/.cache/sluice");
    EXPECT_EQ(with("", ""), "");
}

#ifdef __linux__
/// A machine whose disk has a model and a partition, and on which `path` lies.
void fake_machine(const ScratchDir &root, const std::string &path, const std::string &type) {
    struct stat facts = {};
    ASSERT_EQ(::stat(path.c_str(), &facts), 0);
    const std::string number =
        std::to_string(major(facts.st_dev)) + ":" + std::to_string(minor(facts.st_dev));
    root.write("proc/self/mountinfo", "20 1 0:3 / / rw - rootfs none rw\n"
                                      "21 20 1:1 / " +
                                          path + " rw shared:1 - " + type + " /dev/some\\040disk1 rw\n");
    root.write("sys/devices/disk/device/model", "  Fast Disk 2000 \n");
    root.write("sys/devices/disk/device/serial", "S123\n");
    root.write("sys/devices/disk/disk1/partition", "1\n");
    std::filesystem::create_directories(root / "sys/dev/block");
    std::filesystem::create_directory_symlink(root / "sys/devices/disk/disk1",
                                              root / ("sys/dev/block/" + number));
}

TEST(DeviceIdentity, TellsFileSystemAndModel) {
    const ScratchDir dir;
    const ScratchDir root;
    fake_machine(root, std::filesystem::canonical(dir.path()), "xfs");
    const DeviceIdentity device = identify_device(dir.write("file", "x"), root.path()).value();
    EXPECT_EQ(device.file_system, "xfs");
    EXPECT_EQ(device.source, "/dev/some disk1");
    EXPECT_EQ(device.model, "Fast Disk 2000");
    EXPECT_EQ(device.serial, "S123");
    EXPECT_EQ(device.describe(), "xfs on /dev/some disk1 (Fast Disk 2000)");
    EXPECT_FALSE(device.in_memory());
}

TEST(DeviceIdentity, KnowsFileSystemsInMemory) {
    const ScratchDir dir;
    const ScratchDir root;
    fake_machine(root, std::filesystem::canonical(dir.path()), "tmpfs");
    EXPECT_TRUE(identify_device(dir.path(), root.path())->in_memory());
}
#endif

TEST(DeviceIdentity, DoesWithoutWhatTheSystemDoesNotTell) {
    const ScratchDir dir;
    const ScratchDir root;
    const DeviceIdentity device = identify_device(dir.path(), root.path()).value();
    EXPECT_NE(device.number, "");
    EXPECT_EQ(device.file_system, "");
    EXPECT_EQ(device.model, "");
    EXPECT_FALSE(device.in_memory());
}

TEST(DeviceIdentity, PathMustExist) {
    const auto device = identify_device("/nonexistent/here");
    ASSERT_FALSE(device);
    EXPECT_EQ(device.error().code, ErrorCode::NotFound);
}

} // namespace
} // namespace sluice::storage
