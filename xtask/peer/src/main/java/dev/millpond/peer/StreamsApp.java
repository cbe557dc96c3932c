package dev.millpond.peer;

import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.CloseOptions.GroupMembershipOperation;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.processor.StateRestoreListener;
import org.apache.kafka.streams.state.QueryableStoreTypes;

/**
 * Runs one job and prints JSON lines: "running" when the instance is RUNNING (with what was restored), "result" when
 * `records` input records have been processed and committed. records=0 stops at RUNNING, records=-1 runs until killed.
 */
public final class StreamsApp {
    private final Args args;
    private final KafkaStreams streams;
    private final Restore restore = new Restore();
    private final CountDownLatch running = new CountDownLatch(1);
    private final List<Metric> counters = new ArrayList<>();

    private StreamsApp(Args args) {
        this.args = args;
        streams = new KafkaStreams(
            Jobs.build(args.get("job"), args.get("input"), args.get("output")), config(args));
        streams.setGlobalStateRestoreListener(restore);
        streams.setStateListener((now, before) -> {
            event("state", Map.of("state", now.name()));
            if (now == KafkaStreams.State.RUNNING) {
                running.countDown();
            }
            if (now == KafkaStreams.State.ERROR) {
                System.exit(3);
            }
        });
    }

    private static Properties config(Args args) {
        Properties config = new Properties();
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, args.get("app"));
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, args.get("bootstrap"));
        config.put(StreamsConfig.CLIENT_ID_CONFIG, "ks"); // short: Linux cuts thread names at 15 characters
        config.put(StreamsConfig.STATE_DIR_CONFIG, args.get("state"));
        config.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, args.get("threads", "1"));
        boolean exactlyOnce = args.get("guarantee", "alos").equals("eos");
        config.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG,
            exactlyOnce ? StreamsConfig.EXACTLY_ONCE_V2 : StreamsConfig.AT_LEAST_ONCE);
        config.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, args.get("commit", exactlyOnce ? "100" : "1000"));
        config.putAll(args.under("conf."));
        return config;
    }

    public static void main(String[] arguments) throws Exception {
        StreamsApp app = new StreamsApp(new Args(arguments));
        // SIGTERM is a clean stop, SIGKILL is a crash. Leaving the group is not what Kafka Streams does by itself: without it
        // the next start waits until the broker has given up on this member.
        CloseOptions leaving =
            CloseOptions.groupMembershipOperation(GroupMembershipOperation.LEAVE_GROUP).withTimeout(Duration.ofSeconds(60));
        Runtime.getRuntime().addShutdownHook(new Thread(() -> app.streams.close(leaving)));
        app.run();
    }

    private void run() throws Exception {
        long records = args.number("records", 0);
        Usage started = Usage.now();
        streams.start();
        running.await();
        Usage now = Usage.now();
        Map<String, Object> fields = restore.report(started);
        fields.put("seconds_to_running", now.secondsSince(started));
        fields.put("cpu_to_running", now.cpuSince(started));
        fields.put("restore_bytes", metric("consumer-fetch-manager-metrics", "bytes-consumed-total", "restore-consumer"));
        fields.put("rss_mb", Usage.memory("VmRSS"));
        fields.put("peak_rss_mb", Usage.memory("VmHWM"));
        fields.put("cpu_by_thread", now.threadsSince(started));
        event("running", fields);
        if (records < 0) {
            report();
        }
        if (records > 0) {
            measure(records);
        }
        if (args.number("check", 1) == 1 && Jobs.hasStore(args.get("job"))) {
            event("check", check());
        }
        System.exit(0);
    }

    /** Tells the progress every 50 ms until the process is killed. */
    private void report() throws InterruptedException {
        while (true) {
            Thread.sleep(50);
            event("progress", Map.of("processed", processed(), "restored", restore.total.get()));
        }
    }

    private void measure(long records) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", args.get("bootstrap")))) {
            Map<TopicPartition, Long> ends = Topics.endOffsets(admin, args.get("input"));
            while (processed() == 0) {
                Thread.sleep(10);
            }
            Usage first = Usage.now();
            long firstCount = processed();
            Usage half = null;
            long halfCount = 0;
            while (processed() < records) {
                Thread.sleep(20);
                if (half == null && processed() >= records / 2) {
                    half = Usage.now();
                    halfCount = processed();
                }
            }
            Usage last = Usage.now();
            while (!committed(admin).equals(ends)) {
                Thread.sleep(20);
            }
            Usage done = Usage.now();
            long counted = records - firstCount;
            Map<String, Object> fields = new LinkedHashMap<>();
            fields.put("records", counted);
            fields.put("seconds", last.secondsSince(first));
            fields.put("records_per_s", counted / last.secondsSince(first));
            fields.put("cpu", done.cpuSince(first));
            fields.put("records_per_cpu_s", counted / done.cpuSince(first));
            long later = records - halfCount;
            fields.put("half2_records_per_s", later / last.secondsSince(half));
            fields.put("half2_records_per_cpu_s", later / done.cpuSince(half));
            fields.put("drain_s", done.secondsSince(last));
            fields.put("cpu_whole_process", done.cpu());
            fields.put("cpu_by_thread", done.threadsSince(first));
            fields.put("half2_cpu_by_thread", done.threadsSince(half));
            fields.put("peak_rss_mb", Usage.memory("VmHWM"));
            fields.put("rss_mb", Usage.memory("VmRSS"));
            fields.put("heap_committed_mb", Runtime.getRuntime().totalMemory() / 1e6);
            fields.put("commits", metric("stream-thread-metrics", "commit-total", ""));
            fields.put("commit_avg_ms", metric("stream-thread-metrics", "commit-latency-avg", ""));
            fields.put("commit_max_ms", metric("stream-thread-metrics", "commit-latency-max", ""));
            fields.put("sent_records", metric("producer-metrics", "record-send-total", ""));
            System.gc();
            fields.put("heap_live_mb", (Runtime.getRuntime().totalMemory() - Runtime.getRuntime().freeMemory()) / 1e6);
            event("result", fields);
        }
    }

    private Map<TopicPartition, Long> committed(Admin admin) throws Exception {
        return Topics.committed(admin, args.get("app")).entrySet().stream()
            .filter(entry -> entry.getKey().topic().equals(args.get("input")))
            .collect(Collectors.toMap(Map.Entry::getKey, entry -> entry.getValue().offset()));
    }

    /** Input records that the threads have taken through the topology, from Kafka Streams' own counter. */
    private long processed() {
        if (counters.isEmpty()) {
            streams.metrics().forEach((name, metric) -> {
                if (name.group().equals("stream-thread-metrics") && name.name().equals("process-total")) {
                    counters.add(metric);
                }
            });
        }
        return counters.stream().mapToLong(metric -> ((Number) metric.metricValue()).longValue()).sum();
    }

    /** Sum of a metric over the clients or threads whose id contains the text; sums of averages mean one thread only. */
    private double metric(String group, String name, String client) {
        double sum = 0;
        for (Map.Entry<MetricName, ? extends Metric> entry : streams.metrics().entrySet()) {
            MetricName metric = entry.getKey();
            if (metric.name().equals(name) && metric.group().equals(group) && !metric.tags().containsKey("topic")
                    && metric.tags().getOrDefault("client-id", "").contains(client)
                    && entry.getValue().metricValue() instanceof Number number) {
                sum += number.doubleValue();
            }
        }
        return sum;
    }

    /** Reads the whole store: how many entries, and the sum of the counts. */
    private Map<String, Object> check() {
        AtomicLong entries = new AtomicLong();
        AtomicLong sum = new AtomicLong();
        var store = streams.store(StoreQueryParameters.fromNameAndType(Jobs.STORE, QueryableStoreTypes.<Long, Object>keyValueStore()));
        try (var all = store.all()) {
            all.forEachRemaining(entry -> {
                entries.incrementAndGet();
                sum.addAndGet(entry.value instanceof Long count ? count : 0);
            });
        }
        return Map.of("entries", entries.get(), "sum", sum.get());
    }

    private void event(String name, Map<String, Object> fields) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("event", name);
        line.put("ms", System.currentTimeMillis());
        line.putAll(fields);
        Args.print(line);
    }

    /** Counts restored records and remembers when restoring began and ended. */
    private static final class Restore implements StateRestoreListener {
        final AtomicLong total = new AtomicLong();
        private volatile Usage first;
        private volatile Usage last;

        @Override
        public synchronized void onRestoreStart(TopicPartition partition, String store, long start, long end) {
            if (first == null) {
                first = Usage.now();
            }
        }

        @Override
        public void onBatchRestored(TopicPartition partition, String store, long end, long count) {
            total.addAndGet(count);
        }

        @Override
        public synchronized void onRestoreEnd(TopicPartition partition, String store, long count) {
            last = Usage.now();
        }

        synchronized Map<String, Object> report(Usage started) {
            Map<String, Object> fields = new LinkedHashMap<>();
            fields.put("restored", total.get());
            if (first != null && last != null) {
                fields.put("restore_began_s", first.secondsSince(started));
                fields.put("restore_s", last.secondsSince(first));
                fields.put("restore_cpu", last.cpuSince(first));
            }
            return fields;
        }
    }
}
