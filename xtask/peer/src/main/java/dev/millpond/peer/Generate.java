package dev.millpond.peer;

import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Writes a benchmark topic. order=random draws ids from the distribution; order=each writes every id once per version,
 * scattered, as a changelog that has not been compacted.
 */
public final class Generate {
    private static final int VALUE_SIZE = 100;

    public static void main(String[] arguments) throws Exception {
        Args args = new Args(arguments);
        String topic = args.get("topic");
        long keys = args.number("keys", 1_000_000);
        boolean each = args.get("order", "random").equals("each");
        long versions = args.number("versions", 1);
        long records = each ? keys * versions : args.number("records", 3_000_000);
        Workload workload = new Workload(args.get("distribution", "uniform"), keys, VALUE_SIZE);

        Properties config = new Properties();
        config.put("bootstrap.servers", args.get("bootstrap"));
        config.put("linger.ms", "20");
        config.put("batch.size", "262144");
        config.put("buffer.memory", "134217728");
        AtomicReference<Exception> failure = new AtomicReference<>();
        long began = System.nanoTime();
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (long i = 0; i < records && failure.get() == null; i++) {
                long id = each ? Workload.scatter(i % keys, keys) : workload.nextId();
                // No partition: the default partitioner takes murmur2 of the key, as a Kafka Streams sink does.
                producer.send(
                    new ProducerRecord<>(topic, null, Workload.timestamp(i), Workload.key(id), workload.value(i)),
                    (metadata, error) -> failure.compareAndSet(null, error));
            }
            producer.flush();
        }
        if (failure.get() != null) {
            throw failure.get();
        }
        Args.print(Map.of("generated", topic, "records", records, "seconds", (System.nanoTime() - began) / 1e9));
    }
}
