package org.sluice.core;

import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.RandomAccessFile;
import java.net.HttpURLConnection;
import java.util.List;

/**
 * "Will it run here, and how fast", of a model that was not downloaded: its first MiBs in a file as long as the model, all
 * else holes, is all that `sluice inspect` reads.
 */
public final class HeaderCheck {
    private static final long FIRST = 2L << 20;
    private static final long MOST = 128L << 20;

    private final String engine;
    private final Settings settings;
    private final File folder; // for the files with holes

    public HeaderCheck(String engine, Settings settings, File folder) {
        this.engine = engine;
        this.settings = settings;
        this.folder = folder;
    }

    /** Of a model that is there. */
    public InspectReport ofFile(File model) throws IOException {
        return new InspectReport(new Program(CommandLine.inspect(engine, model.getPath(), settings), folder).run());
    }

    /** Of a model behind an address. Fetches more of it while what came is not all of the header. */
    public InspectReport ofAddress(String address) throws IOException {
        String name = Parts.fileName(address);
        File scratch = new File(folder, "header");
        scratch.mkdirs();
        try {
            List<String> addresses = Parts.addresses(address);
            Program.Run run = null;
            for (long bytes = FIRST; bytes <= MOST; bytes *= 4) {
                boolean all = true;
                for (String each : addresses) {
                    all &= fetch(Remote.look(each), bytes, new File(scratch, Parts.fileName(each)));
                }
                File first = new File(scratch, Parts.part(name, 1));
                run = new Program(CommandLine.inspect(engine, first.getPath(), settings), folder).run();
                if (!run.output.isEmpty() || all) {
                    break;
                }
            }
            return new InspectReport(run);
        } finally {
            deleteAll(scratch);
        }
    }

    /** True if that was the whole file. */
    private static boolean fetch(Remote remote, long bytes, File file) throws IOException {
        long wanted = Math.min(bytes, remote.size);
        if (!remote.ranges && remote.size > MOST) {
            throw new IOException("the server sends whole files only, so the model cannot be looked at beforehand");
        }
        HttpURLConnection connection = remote.read(0, wanted);
        RandomAccessFile out = new RandomAccessFile(file, "rw");
        try {
            InputStream in = connection.getInputStream();
            byte[] part = new byte[1 << 16];
            long at = 0;
            for (int n = in.read(part); n >= 0 && at < wanted; n = in.read(part)) {
                out.write(part, 0, n);
                at += n;
            }
            out.setLength(remote.size);
            return at >= remote.size;
        } finally {
            out.close();
            connection.disconnect();
        }
    }

    private static void deleteAll(File scratch) {
        File[] files = scratch.listFiles();
        for (File file : files == null ? new File[0] : files) {
            file.delete();
        }
        scratch.delete();
    }
}
