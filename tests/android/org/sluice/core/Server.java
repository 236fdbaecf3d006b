package org.sluice.core;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpHandler;
import com.sun.net.httpserver.HttpServer;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** A web server with files, and with the faults that downloads meet. */
final class Server implements HttpHandler {
    final Map<String, byte[]> files = Collections.synchronizedMap(new TreeMap<String, byte[]>());
    final List<String> ranges = Collections.synchronizedList(new ArrayList<String>());
    volatile boolean knowsRanges = true;
    volatile int cutAfter = Integer.MAX_VALUE; // bytes of an answer, once
    volatile String version = "\"1\"";
    volatile long sent;
    private final HttpServer server;

    Server() throws IOException {
        server = HttpServer.create(new InetSocketAddress("127.0.0.1", 0), 0);
        server.createContext("/", this);
        server.start();
    }

    String address(String name) {
        return "http://127.0.0.1:" + server.getAddress().getPort() + "/" + name;
    }

    void stop() {
        server.stop(0);
    }

    @Override
    public void handle(HttpExchange exchange) throws IOException {
        String name = exchange.getRequestURI().getPath().substring(1);
        if (name.startsWith("moved/")) {
            exchange.getResponseHeaders().set("Location", "/" + name.substring(6));
            exchange.sendResponseHeaders(302, -1);
            exchange.close();
            return;
        }
        byte[] bytes = files.get(name);
        if (bytes == null) {
            exchange.sendResponseHeaders(404, -1);
            exchange.close();
            return;
        }
        answer(exchange, bytes);
    }

    private void answer(HttpExchange exchange, byte[] bytes) throws IOException {
        String range = exchange.getRequestHeaders().getFirst("Range");
        String condition = exchange.getRequestHeaders().getFirst("If-Range");
        ranges.add(String.valueOf(range));
        int from = 0;
        int to = bytes.length;
        exchange.getResponseHeaders().set("ETag", version);
        boolean part = knowsRanges && range != null && (condition == null || condition.equals(version));
        if (part) {
            String[] ends = range.substring(6).split("-");
            from = Integer.parseInt(ends[0]);
            to = ends.length > 1 ? Math.min(to, Integer.parseInt(ends[1]) + 1) : to;
            exchange.getResponseHeaders().set("Content-Range", "bytes " + from + "-" + (to - 1) + "/" + bytes.length);
        }
        exchange.sendResponseHeaders(part ? 206 : 200, to - from);
        int cut = to - from > 1 ? Math.min(to - from, cutAfter) : to - from;
        exchange.getResponseBody().write(bytes, from, cut);
        sent += cut;
        if (cut < to - from) {
            cutAfter = Integer.MAX_VALUE;
            exchange.getResponseBody().flush();
        }
        exchange.close();
    }
}
