package org.sluice.core;

import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.util.List;

/** Runs a program to its end and collects what it writes. */
final class Program {
    /** What came of it. Plain data. */
    static final class Run {
        final int code;
        final String output;
        final String errors;

        Run(int code, String output, String errors) {
            this.code = code;
            this.output = output;
            this.errors = errors;
        }
    }

    private final List<String> words;
    private final File folder;

    Program(List<String> words, File folder) {
        this.words = words;
        this.folder = folder;
    }

    Run run() throws IOException {
        ProcessBuilder builder = new ProcessBuilder(words).directory(folder);
        builder.environment().put("XDG_CACHE_HOME", folder.getPath());
        final Process process = builder.start();
        process.getOutputStream().close();
        final StringBuilder errors = new StringBuilder();
        Thread reader = new Thread("sluice-errors") {
            @Override
            public void run() {
                errors.append(readQuietly(process.getErrorStream()));
            }
        };
        reader.start();
        String output = Files.readAll(process.getInputStream());
        try {
            reader.join();
            return new Run(process.waitFor(), output, errors.toString());
        } catch (InterruptedException e) {
            process.destroy();
            Thread.currentThread().interrupt();
            throw new IOException("it was stopped", e);
        }
    }

    private static String readQuietly(InputStream in) {
        try {
            return Files.readAll(in);
        } catch (IOException e) {
            return e.toString();
        }
    }
}
