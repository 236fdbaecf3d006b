package org.sluice.core;

import java.io.File;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** Models in a folder of the app. */
public final class ModelFolder {
    /** One model: its first file, and all of them. */
    public static final class Model {
        public final File first;
        public final List<File> files;
        public final long bytes;
        public final boolean complete; // no part of a split one is missing

        Model(File first, List<File> files, long bytes, boolean complete) {
            this.first = first;
            this.files = files;
            this.bytes = bytes;
            this.complete = complete;
        }

        /** Gives its room back. False if something could not be deleted. */
        public boolean delete() {
            boolean all = true;
            for (File file : files) {
                all &= file.delete() || !file.exists();
            }
            return all;
        }
    }

    private final File folder;

    public ModelFolder(File folder) {
        this.folder = folder;
        folder.mkdirs();
    }

    public File folder() {
        return folder;
    }

    /** By name. */
    public List<Model> list() {
        File[] files = folder.listFiles();
        List<Model> models = new ArrayList<Model>();
        if (files != null) {
            Arrays.sort(files);
            for (File file : files) {
                if (file.getName().endsWith(".gguf") && Parts.isFirst(file.getName())) {
                    models.add(modelOf(file));
                }
            }
        }
        return models;
    }

    static Model modelOf(File first) {
        int parts = Parts.count(first.getName());
        List<File> files = new ArrayList<File>();
        long bytes = 0;
        boolean complete = true;
        for (int number = 1; number <= parts; ++number) {
            File file = new File(first.getParentFile(), Parts.part(first.getName(), number));
            complete &= file.exists();
            bytes += file.length();
            files.add(file);
        }
        return new Model(first, files, bytes, complete);
    }

    /**
     * Copies a file in, under its own name; `size` is what its owner says, negative if that is not known. A copy that
     * fails leaves nothing behind.
     */
    public File copyIn(InputStream in, String name, long size, Download.Progress progress) throws IOException {
        try {
            Download.ensureSpace(folder, Math.max(size, 0));
            String plain = name.replaceAll(".*[/\\\\]", "").replaceAll("[^A-Za-z0-9._+-]", "_");
            if (!plain.endsWith(".gguf") || plain.startsWith(".")) {
                throw new IOException(name + " is no GGUF file");
            }
            File file = new File(folder, plain);
            File part = Download.partOf(file);
            try {
                copy(in, part, size, progress, plain);
                if (!part.renameTo(file)) {
                    throw new IOException("cannot name " + file);
                }
            } finally {
                part.delete();
            }
            return file;
        } finally {
            Files.closeQuietly(in);
        }
    }

    private static void copy(InputStream in, File part, long size, Download.Progress progress, String name)
        throws IOException {
        FileOutputStream out = new FileOutputStream(part);
        try {
            long at = 0;
            byte[] bytes = new byte[1 << 20];
            for (int n = in.read(bytes); n >= 0; n = in.read(bytes)) {
                out.write(bytes, 0, n);
                at += n;
                progress.arrived(at, Math.max(size, at), name);
            }
            if (size >= 0 && at != size) {
                throw new IOException(name + " has " + size + " bytes, but " + at + " came");
            }
            out.getFD().sync();
        } finally {
            out.close();
        }
    }
}
