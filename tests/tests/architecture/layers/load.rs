//! The modules of `load`.

use super::Layer;

pub const LAYERS: &[Layer] = &[
    (&["distribution"], &[]),
    (&["number_set"], &[]),
    (&["stamp"], &[]),
    (&["template"], &[]),
    (&["threshold"], &[]),
    (&["rate"], &["distribution"]),
    (&["file"], &["distribution", "rate", "template", "threshold"]),
    (&["time_line"], &["file"]),
    (&["ledger"], &["number_set", "stamp"]),
    (&["link"], &["stamp"]),
    (&["meter"], &["link", "threshold"]),
    (&["report"], &["ledger", "meter", "threshold"]),
    (&["compare"], &["report", "threshold"]),
    (&["over_amqp"], &["file", "link", "stamp"]),
    (&["over_grpc"], &["file", "link", "stamp"]),
    (&["plan"], &["file", "ledger", "over_grpc"]),
    (&["draft"], &["file", "ledger", "link", "stamp", "template"]),
    (&["consumer"], &["file", "ledger", "link", "meter", "stamp", "threshold", "time_line"]),
    (&["producer"], &["draft", "ledger", "link", "meter", "rate", "threshold", "time_line"]),
    (
        &["run"],
        &[
            "consumer",
            "draft",
            "file",
            "ledger",
            "lib",
            "link",
            "meter",
            "over_amqp",
            "over_grpc",
            "plan",
            "producer",
            "report",
            "threshold",
            "time_line",
        ],
    ),
];
