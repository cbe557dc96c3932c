package dev.millpond.peer;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/** Topic chores for the driver: do=create|delete|ends. */
public final class Topics {
    public static void main(String[] arguments) throws Exception {
        Args args = new Args(arguments);
        Properties config = new Properties();
        config.put("bootstrap.servers", args.get("bootstrap"));
        try (Admin admin = Admin.create(config)) {
            switch (args.get("do")) {
                case "create" -> create(admin, args);
                case "delete" -> delete(admin, args.get("prefix"));
                case "ends" -> ends(admin, args.get("topic"));
                default -> throw new IllegalArgumentException("do=create|delete|ends");
            }
        }
    }

    private static void create(Admin admin, Args args) throws Exception {
        Map<String, String> settings = new HashMap<>(args.under("config."));
        List<NewTopic> topics = new ArrayList<>();
        for (String name : args.get("topics").split(",")) {
            topics.add(new NewTopic(name, (int) args.number("partitions", 4), (short) 1).configs(settings));
        }
        admin.createTopics(topics).all().get();
    }

    private static void delete(Admin admin, String prefix) throws Exception {
        List<String> doomed = admin.listTopics().names().get().stream().filter(name -> name.startsWith(prefix)).toList();
        admin.deleteTopics(doomed).all().get();
    }

    private static void ends(Admin admin, String topic) throws Exception {
        if (!admin.listTopics().names().get().contains(topic)) {
            Args.print(Map.of("topic", topic, "end", -1L));
            return;
        }
        long sum = endOffsets(admin, topic).values().stream().mapToLong(Long::longValue).sum();
        Args.print(Map.of("topic", topic, "end", sum));
    }

    static Map<TopicPartition, Long> endOffsets(Admin admin, String topic) throws Exception {
        Map<TopicPartition, OffsetSpec> wanted = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic)
            .partitions().stream().collect(Collectors.toMap(p -> new TopicPartition(topic, p.partition()), p -> OffsetSpec.latest()));
        Map<TopicPartition, Long> ends = new HashMap<>();
        admin.listOffsets(wanted).all().get().forEach((partition, info) -> ends.put(partition, info.offset()));
        return ends;
    }

    static Map<TopicPartition, OffsetAndMetadata> committed(Admin admin, String group) throws Exception {
        return admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get();
    }
}
