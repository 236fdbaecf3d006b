package org.sluice.core;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.security.SecureRandom;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.List;

/**
 * Keeps one engine process: starts it with a new key, waits until it answers, starts it again when it dies on its own,
 * and ends it. Safe for several threads; they take turns at starting and ending. The listener is called by whoever changes
 * the state, while others wait for that turn: it must not wait for a thread that starts or stops an engine.
 *
 * <p>States: STOPPED -> STARTING -> RUNNING -> STOPPED by stop(); STARTING or RUNNING -> WAITING when the process dies ->
 * STARTING after a pause; WAITING -> FAILED when it died too often.
 */
public final class Engine {
    /** What the engine is doing. */
    public enum State {
        STOPPED,
        STARTING,
        RUNNING,
        WAITING,
        FAILED
    }

    /** Hears of each change of state. */
    public interface Listener {
        void changed(State state, String sentence);
    }

    /** Asks a process to end, as SIGTERM does: Java on Android can only kill. */
    public interface Ender {
        void end(int pid);
    }

    private static final int MOST_LINES = 200;
    private static final int MOST_DEATHS = 3; // in a row, none of which lived for LIVED_MS
    private static final long LIVED_MS = 60000;
    private static final long GRACE_MS = 5000;
    private static final int KEY_BYTES = 24;

    private final String program;
    private final File folder;
    private final Settings settings;
    private final Ender ender;
    private final Listener listener;
    private final Deque<String> lines = new ArrayDeque<String>();
    private final Object turn = new Object(); // to start or to end

    private State state = State.STOPPED;
    private Process process;
    private int pid;
    private String key = "";
    private int deaths;
    private long startedAt;
    private int generation; // of start() and stop(): what belongs to an earlier one has nothing to say

    /** `folder` is the app's own, for caches and the number of the process that runs. */
    public Engine(String program, File folder, Settings settings, Ender ender, Listener listener) {
        this.program = program;
        this.folder = folder;
        this.settings = settings;
        this.ender = ender;
        this.listener = listener;
    }

    public synchronized State state() {
        return state;
    }

    /** It does not run, and will not by itself. */
    public synchronized boolean isDown() {
        return state == State.STOPPED || state == State.FAILED;
    }

    /** Asked for by whoever talks to the engine; another one for each start. */
    public synchronized String key() {
        return key;
    }

    /** The last lines that the engine wrote, for people. */
    public String log() {
        synchronized (lines) {
            StringBuilder text = new StringBuilder();
            for (String line : lines) {
                text.append(line).append('\n');
            }
            return text.toString();
        }
    }

    /** Starts the engine with the settings as they are now, in the place of one that runs. */
    public void start() {
        synchronized (turn) {
            end(takeOver());
            synchronized (this) {
                deaths = 0;
            }
            launch();
        }
    }

    /** Ends the engine and waits until it is gone. */
    public void stop() {
        synchronized (turn) {
            end(takeOver());
            change(State.STOPPED, "The engine is stopped.");
        }
    }

    private synchronized Process takeOver() {
        ++generation;
        Process running = process;
        process = null;
        return running;
    }

    private void end(Process running) {
        if (running == null) {
            return;
        }
        int number;
        synchronized (this) {
            number = pid;
        }
        if (number > 0) {
            ender.end(number);
        }
        Thread waiter = waiterFor(running);
        try {
            waiter.join(GRACE_MS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        running.destroy();
        pidFile().delete();
    }

    private static Thread waiterFor(final Process running) {
        Thread waiter = new Thread("sluice-end") {
            @Override
            public void run() {
                try {
                    running.waitFor();
                } catch (InterruptedException e) {
                    Thread.currentThread().interrupt();
                }
            }
        };
        waiter.setDaemon(true);
        waiter.start();
        return waiter;
    }

    private void launch() {
        final Process started;
        final int mine;
        try {
            endForgotten();
            choosePort();
            synchronized (this) {
                key = newKey();
                mine = generation;
                process = startProcess();
                started = process;
                pid = 0;
            }
        } catch (IOException e) {
            change(State.FAILED, "The engine could not be started: " + e.getMessage() + ".");
            return;
        }
        change(State.STARTING, "The engine is starting.");
        inBackground("sluice-output", new Runnable() {
            @Override
            public void run() {
                listen(started, mine);
            }
        });
        inBackground("sluice-health", new Runnable() {
            @Override
            public void run() {
                awaitHealth(mine);
            }
        });
    }

    /** The shell says which process it is, then becomes the engine: Java before 9 does not tell. */
    private Process startProcess() throws IOException {
        List<String> words = new ArrayList<String>(Arrays.asList("sh", "-c", "echo $$; exec \"$0\" \"$@\""));
        words.addAll(CommandLine.serve(program, settings));
        ProcessBuilder builder = new ProcessBuilder(words).redirectErrorStream(true).directory(folder);
        builder.environment().putAll(CommandLine.environment(key, folder.getPath()));
        Process started = builder.start();
        started.getOutputStream().close();
        return started;
    }

    private void listen(Process started, int mine) {
        BufferedReader reader = new BufferedReader(new InputStreamReader(started.getInputStream()));
        try {
            String first = reader.readLine();
            if (first != null) {
                notePid(Integer.parseInt(first.trim()), mine);
            }
            for (String line = reader.readLine(); line != null; line = reader.readLine()) {
                addLine(line);
            }
        } catch (IOException e) {
            addLine(e.toString());
        } catch (NumberFormatException e) {
            addLine(e.toString());
        }
        int code = -1;
        try {
            code = started.waitFor();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        died(code, mine);
    }

    private void addLine(String line) {
        synchronized (lines) {
            lines.addLast(line);
            if (lines.size() > MOST_LINES) {
                lines.removeFirst();
            }
        }
    }

    private synchronized void notePid(int number, int mine) throws IOException {
        if (mine == generation) {
            pid = number;
            Files.write(pidFile(), String.valueOf(number));
        }
    }

    private void awaitHealth(int mine) {
        FlashClient client = new FlashClient(settings.port(), key());
        while (isCurrent(mine) && !client.healthy()) {
            pause(250);
        }
        if (isCurrent(mine)) {
            change(State.RUNNING, "The engine is running.");
        }
    }

    private synchronized boolean isCurrent(int mine) {
        return mine == generation && process != null;
    }

    private void died(int code, int mine) {
        long pauseMs;
        synchronized (this) {
            if (!isCurrent(mine)) {
                return;
            }
            boolean lived = System.currentTimeMillis() - startedAt > LIVED_MS;
            deaths = lived ? 1 : deaths + 1;
            pauseMs = 1000L << Math.min(deaths - 1, 4);
            process = null;
        }
        pidFile().delete();
        // 2: the engine was called wrongly; that does not mend itself.
        if (code == 2 || deaths >= MOST_DEATHS) {
            change(State.FAILED, "The engine ended with code " + code + ": " + lastLine());
            return;
        }
        change(State.WAITING, "The engine was ended (code " + code + ") and is started again: " + lastLine());
        pause(pauseMs);
        synchronized (turn) {
            synchronized (this) {
                if (mine != generation) {
                    return;
                }
                ++generation;
            }
            launch();
        }
    }

    private String lastLine() {
        synchronized (lines) {
            return lines.isEmpty() ? "it said nothing." : lines.getLast();
        }
    }

    private void change(State now, String sentence) {
        synchronized (this) {
            state = now;
            if (now == State.STARTING) {
                startedAt = System.currentTimeMillis();
            }
        }
        listener.changed(now, sentence);
    }

    private File pidFile() {
        return new File(folder, "engine.pid");
    }

    /** Where the app was killed and its engine was not, that one still has the port and the memory. */
    private void endForgotten() throws IOException {
        String text = Files.readIfThere(pidFile());
        if (text.isEmpty()) {
            return;
        }
        String command = Files.readIfThere(new File("/proc/" + text.trim() + "/cmdline"));
        if (command.startsWith(program + "\0")) {
            int number = Integer.parseInt(text.trim());
            ender.end(number);
            for (long waited = 0; waited < GRACE_MS && new File("/proc/" + number + "/exe").exists(); waited += 50) {
                pause(50);
            }
        }
        pidFile().delete();
    }

    /** The port of the first start is kept; a page's chats would be lost with it. */
    private void choosePort() throws IOException {
        int kept = settings.port();
        try {
            ServerSocket socket = new ServerSocket();
            try {
                socket.setReuseAddress(true);
                socket.bind(new java.net.InetSocketAddress(InetAddress.getByName(CommandLine.HOST), kept));
                settings.setPort(socket.getLocalPort());
            } finally {
                socket.close();
            }
        } catch (IOException e) {
            throw new IOException("port " + kept + ", which keeps the chats, is taken by another program", e);
        }
        settings.save();
    }

    private static String newKey() {
        byte[] bytes = new byte[KEY_BYTES];
        new SecureRandom().nextBytes(bytes);
        StringBuilder text = new StringBuilder();
        for (byte b : bytes) {
            text.append(String.format("%02x", b));
        }
        return text.toString();
    }

    private static void inBackground(String name, Runnable work) {
        Thread thread = new Thread(work, name);
        thread.setDaemon(true);
        thread.start();
    }

    private static void pause(long milliseconds) {
        try {
            Thread.sleep(milliseconds);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
