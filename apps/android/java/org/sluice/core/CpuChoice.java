package org.sluice.core;

import java.io.File;
import java.util.Arrays;
import java.util.List;

/** Which of the engine's builds this processor can run: the best one that the package has. */
public final class CpuChoice {
    private CpuChoice() {}

    /** `cpuinfo` is the text of /proc/cpuinfo. A feature counts if all cores have it: threads move between them. */
    public static String library(String cpuinfo) {
        boolean any = false;
        boolean dotprod = true;
        boolean i8mm = true;
        for (String line : cpuinfo.split("\n")) {
            if (line.startsWith("Features")) {
                List<String> features = Arrays.asList(line.replaceAll(".*:", "").trim().split(" +"));
                any = true;
                dotprod &= features.contains("asimddp") && features.contains("asimdhp");
                i8mm &= features.contains("i8mm");
            }
        }
        if (!any || !dotprod) {
            return "libsluice_v8.so";
        }
        return i8mm ? "libsluice_i8mm.so" : "libsluice_dotprod.so";
    }

    /** The engine among the package's libraries; the plainest one if the best is not packed. */
    public static File engine(File libraries, String cpuinfo) {
        File best = new File(libraries, library(cpuinfo));
        File dotprod = new File(libraries, "libsluice_dotprod.so");
        if (!best.exists() && best.getName().equals("libsluice_i8mm.so") && dotprod.exists()) {
            return dotprod;
        }
        return best.exists() ? best : new File(libraries, "libsluice_v8.so");
    }

    public static File engine(File libraries) {
        return engine(libraries, Files.readIfThere(new File("/proc/cpuinfo")));
    }
}
