package org.sluice.core;

import java.io.ByteArrayOutputStream;
import java.io.Closeable;
import java.io.File;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;

/** Small things with files, in what every Android that the app runs on has. */
final class Files {
    private Files() {}

    static void write(File file, String text) throws IOException {
        OutputStream out = new FileOutputStream(file);
        try {
            out.write(text.getBytes("UTF-8"));
        } finally {
            out.close();
        }
    }

    /** Empty if it cannot be read. */
    static String readIfThere(File file) {
        try {
            return readAll(new FileInputStream(file));
        } catch (IOException e) {
            return "";
        }
    }

    /** Reads to the end and closes. */
    static String readAll(InputStream in) throws IOException {
        try {
            ByteArrayOutputStream all = new ByteArrayOutputStream();
            byte[] part = new byte[8192];
            for (int n = in.read(part); n >= 0; n = in.read(part)) {
                all.write(part, 0, n);
            }
            return all.toString("UTF-8");
        } finally {
            in.close();
        }
    }

    static void closeQuietly(Closeable closeable) {
        try {
            if (closeable != null) {
                closeable.close();
            }
        } catch (IOException e) {
            // it was read or written already
        }
    }
}
