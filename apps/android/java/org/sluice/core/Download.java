package org.sluice.core;

import java.io.BufferedInputStream;
import java.io.File;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.RandomAccessFile;
import java.net.HttpURLConnection;
import java.util.ArrayList;
import java.util.List;

/**
 * Fetches a model, all parts of a split one, into a folder. What has arrived stays in "NAME.part" when it is stopped or
 * fails, and the next try goes on from there. One thread runs it; cancel() may come from another.
 */
public final class Download {
    /** Hears how far it is, often. */
    public interface Progress {
        void arrived(long bytes, long total, String name);
    }

    /** Stays free on the device: phones with full storage misbehave. */
    static final long RESERVE = 512L << 20;
    private static final int MOST_FAILURES = 5; // in a row, without a byte between them

    private final List<String> addresses;
    private final File folder;
    private final Progress progress;
    private final List<Remote> remotes = new ArrayList<Remote>();
    private volatile boolean cancelled;
    private long pauseMs = 1000;
    private long before; // bytes of the parts before this one

    /** Throws IllegalArgumentException, with a sentence, for an address that names no GGUF file. */
    public Download(String address, File folder, Progress progress) {
        Parts.fileName(address);
        this.addresses = Parts.addresses(address);
        this.folder = folder;
        this.progress = progress;
    }

    /** For tests. */
    void setPause(long milliseconds) {
        pauseMs = milliseconds;
    }

    /** run() returns soon, with an exception. */
    public void cancel() {
        cancelled = true;
    }

    /** Bytes of all parts; asks the server. */
    public long size() throws IOException {
        if (remotes.isEmpty()) {
            List<Remote> found = new ArrayList<Remote>();
            for (String address : addresses) {
                found.add(Remote.look(address));
            }
            remotes.addAll(found);
        }
        long sum = 0;
        for (Remote remote : remotes) {
            sum += remote.size;
        }
        return sum;
    }

    /** Fetches what is missing and returns the model's file, the first part of a split one. */
    public File run() throws IOException {
        long total = size();
        checkSpace(total);
        before = 0;
        for (Remote remote : remotes) {
            File file = fileOf(remote);
            if (!isComplete(file, remote)) {
                fetch(remote, file, total);
            }
            before += remote.size;
            progress.arrived(before, total, file.getName());
        }
        return fileOf(remotes.get(0));
    }

    private void checkSpace(long total) throws IOException {
        long there = 0;
        for (Remote remote : remotes) {
            File file = fileOf(remote);
            there += isComplete(file, remote) ? remote.size : Math.min(partOf(file).length(), remote.size);
        }
        ensureSpace(folder, total - there);
    }

    static void ensureSpace(File folder, long wanted) throws IOException {
        long free = folder.getUsableSpace();
        if (free < wanted + RESERVE) {
            throw new IOException(String.format("there is too little space: %d MiB are needed and %d MiB are to stay free, but"
                + " only %d MiB are", mib(wanted), mib(RESERVE), mib(free)));
        }
    }

    private static long mib(long bytes) {
        return (bytes + (1 << 20) - 1) >> 20;
    }

    private void fetch(Remote remote, File file, long total) throws IOException {
        File part = partOf(file);
        forgetOther(remote, file);
        int failures = 0;
        while (part.length() < remote.size || !part.exists()) {
            long had = part.length();
            try {
                fetchSome(remote, part, total);
            } catch (IOException e) {
                failures = part.length() > had ? 1 : failures + 1;
                if (cancelled || failures >= MOST_FAILURES) {
                    throw e;
                }
                pause(failures * pauseMs);
            }
        }
        if (part.length() != remote.size) {
            part.delete();
            throw new IOException(file.getName() + " came with another size than the server said; it was dropped");
        }
        checkMagic(part);
        if (!part.renameTo(file)) {
            throw new IOException("cannot name " + file + ", which has arrived");
        }
        versionOf(file).delete();
    }

    /** Bytes of another version of the file are of no use. */
    private void forgetOther(Remote remote, File file) throws IOException {
        String mark = remote.size + " " + remote.version;
        if (!Files.readIfThere(versionOf(file)).equals(mark)) {
            partOf(file).delete();
            Files.write(versionOf(file), mark);
        }
    }

    private void fetchSome(Remote remote, File part, long total) throws IOException {
        HttpURLConnection connection = remote.read(part.length(), 0);
        RandomAccessFile out = new RandomAccessFile(part, "rw");
        try {
            long at = Remote.beginsAt(connection);
            if (at > out.length()) {
                throw new IOException("the server sent another part than was asked for");
            }
            out.setLength(at); // 0 where the server cannot go on in the middle
            out.seek(at);
            InputStream in = connection.getInputStream();
            byte[] bytes = new byte[1 << 16];
            for (int n = in.read(bytes); n >= 0; n = in.read(bytes)) {
                if (cancelled) {
                    throw new IOException("the download was stopped; it goes on from here next time");
                }
                out.write(bytes, 0, n);
                at += n;
                progress.arrived(before + at, total, part.getName());
            }
            if (at < remote.size) {
                throw new IOException("the connection ended early");
            }
            out.getFD().sync();
        } finally {
            out.close();
            connection.disconnect();
        }
    }

    private static void checkMagic(File part) throws IOException {
        byte[] magic = new byte[4];
        InputStream in = new BufferedInputStream(new FileInputStream(part));
        int n = in.read(magic);
        in.close();
        if (n != 4 || !new String(magic, "US-ASCII").equals("GGUF")) {
            part.delete();
            throw new IOException("what the server sent is no GGUF file; it was dropped");
        }
    }

    private File fileOf(Remote remote) {
        return new File(folder, Parts.fileName(remote.address));
    }

    private static boolean isComplete(File file, Remote remote) {
        return file.length() == remote.size && file.exists();
    }

    static File partOf(File file) {
        return new File(file.getPath() + ".part");
    }

    private static File versionOf(File file) {
        return new File(file.getPath() + ".version");
    }

    private static void pause(long milliseconds) {
        try {
            Thread.sleep(milliseconds);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
