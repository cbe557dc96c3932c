package dev.millpond.peer;

import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.KeyValueStore;

/** The topologies. A store is named "store" and logged; each writes to one output topic. */
final class Jobs {
    static final String STORE = "store";

    private static final Serde<Long> LONG = Serdes.Long(); // 8 bytes, big-endian
    private static final Serde<byte[]> BYTES = Serdes.ByteArray();

    private Jobs() {
    }

    static boolean hasStore(String job) {
        return !job.equals("copy");
    }

    static Topology build(String job, String input, String output) {
        StreamsBuilder builder = new StreamsBuilder();
        KStream<Long, byte[]> stream = builder.stream(input, Consumed.with(LONG, BYTES));
        switch (job) {
            case "copy" -> stream.to(output, Produced.with(LONG, BYTES));
            case "count" -> grouped(stream)
                .count(Materialized.<Long, Long, KeyValueStore<Bytes, byte[]>>as(STORE).withKeySerde(LONG).withValueSerde(LONG))
                .toStream().to(output, Produced.with(LONG, LONG));
            case "reduce100" -> grouped(stream)
                .reduce((old, latest) -> latest,
                    Materialized.<Long, byte[], KeyValueStore<Bytes, byte[]>>as(STORE).withKeySerde(LONG).withValueSerde(BYTES))
                .toStream().to(output, Produced.with(LONG, BYTES));
            default -> throw new IllegalArgumentException("job=copy|count|reduce100, not " + job);
        }
        return builder.build();
    }

    private static KGroupedStream<Long, byte[]> grouped(KStream<Long, byte[]> stream) {
        return stream.groupByKey(Grouped.with(LONG, BYTES));
    }
}
