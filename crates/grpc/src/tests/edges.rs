//! Limits, identities and doors.

use tonic::Code;
use tonic::transport::Channel;
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{HealthCheckRequest, health_check_response::ServingStatus};
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use wire::v1::{self, value::Kind};

use super::harness::*;

/// ERR-27: what a refusal of any message says.
async fn refused(server: &mut Server, message: v1::Message, reason: &str, rule: &str) {
    let status = server.send(vec![message]).await.expect_err(reason);
    let info = info(&status);
    assert_eq!(
        (info.reason.as_str(), info.metadata["rule"].as_str()),
        (reason, rule),
        "{status:?}"
    );
    assert_eq!(info.metadata["entity"], "q");
    assert_eq!(info.metadata["retry"], "RETRY_NO");
    assert!(!info.metadata["tracking_id"].is_empty());
}

#[tokio::test]
async fn msg_7_quota_17_quota_19_ttl_8_limits_of_a_message() {
    let mut server = Server::with_queue(Default::default()).await;
    let long = || Some("x".repeat(129));
    let argument = ("ArgumentException", "ERR-12");
    for (message, (reason, rule)) in [
        (v1::Message { message_id: long(), ..message("a") }, argument),
        (v1::Message { session_id: long(), ..message("a") }, argument),
        (v1::Message { reply_to_session_id: long(), ..message("a") }, argument),
        (v1::Message { partition_key: long(), ..message("a") }, argument),
        (
            v1::Message { ttl_ms: Some(0), ..message("a") },
            ("ArgumentOutOfRangeException", "ERR-13"),
        ),
        (
            v1::Message { subject: Some("x".repeat(33 * 1024)), ..message("a") },
            ("SerializationException", "ERR-14"),
        ),
        (
            with_property("p", Kind::StringValue("x".repeat(33 * 1024))),
            ("SerializationException", "ERR-14"),
        ),
        (with_property("p", Kind::ByteValue(256)), argument),
        (with_many_properties(3, 30 * 1024), ("SerializationException", "ERR-14")),
        (message(&"x".repeat(257 * 1024)), ("MessageSizeExceeded", "ERR-9")),
    ] {
        refused(&mut server, message, reason, rule).await;
    }
    // SEND-5.
    let split = v1::Message {
        session_id: Some("s".into()),
        partition_key: Some("p".into()),
        ..message("a")
    };
    refused(&mut server, split, "InvalidOperationException", "ERR-15").await;
    assert_eq!(server.counters().await.accepted, 0, "ERR-29");
}

fn with_property(name: &str, kind: Kind) -> v1::Message {
    let properties = [(name.to_owned(), v1::Value { kind: Some(kind) })].into();
    v1::Message { properties, ..message("a") }
}

fn with_many_properties(count: usize, bytes: usize) -> v1::Message {
    let value = || v1::Value { kind: Some(Kind::BytesValue(vec![0; bytes].into())) };
    let properties = (0..count).map(|n| (format!("p{n}"), value())).collect();
    v1::Message { properties, ..message("a") }
}

#[tokio::test]
async fn quota_6_a_request_too_large_to_be_read_is_refused() {
    let mut server = Server::with_queue(Default::default()).await;
    let huge = message(&"x".repeat(5 * 1024 * 1024));
    let status = server.send(vec![huge]).await.expect_err("too large");
    assert_eq!(status.code(), Code::OutOfRange);
    assert!(status.message().contains("limit"), "{status:?}");
    let many = |count: usize| (0..count).map(|n| message(&n.to_string())).collect::<Vec<_>>();
    assert_eq!(server.send(many(5_000)).await.expect("sent").len(), 5_000);
    let status = server.send(many(20_000)).await.expect_err("too many bytes, 64 for each");
    assert_eq!(info(&status).reason, "MessageSizeExceeded");
    let none = server.send(Vec::new()).await.expect_err("nothing to send");
    assert_eq!(info(&none).reason, "ArgumentOutOfRangeException");
}

#[tokio::test]
async fn msg_2_what_was_sent_comes_back_and_a_missing_id_is_drawn() {
    let mut server = Server::with_queue(Default::default()).await;
    let full = v1::Message {
        message_id: Some("id".into()),
        session_id: Some("s".into()),
        reply_to_session_id: Some("r".into()),
        partition_key: Some("s".into()),
        correlation_id: Some("c".into()),
        subject: Some("subject".into()),
        to: Some("to".into()),
        reply_to: Some("reply".into()),
        content_type: Some("text/plain".into()),
        ttl_ms: Some(60_000),
        ..with_property("n", Kind::LongValue(-7))
    };
    server.send(vec![full.clone(), message("plain")]).await.expect("sent");
    let got = server.receive(2).await;
    let first = got[0].message.clone().expect("a message");
    assert_eq!(first, full);
    let expires = got[0].expires_at_ms.expect("TTL-1");
    assert_eq!(expires, got[0].enqueued_at_ms + 60_000);
    let drawn = got[1].message.clone().expect("a message").message_id.expect("drawn");
    assert_eq!(drawn.len(), 32, "{drawn}");
}

/// TTL-23, TTL-25: a derived deadline shows on a receive, not on a peek.
#[tokio::test]
async fn ttl_23_ttl_25_a_peek_does_not_compute_a_derived_deadline() {
    let default_ttl_ms = Some(3_600_000);
    let mut server =
        Server::with_queue(v1::QueueProperties { default_ttl_ms, ..Default::default() }).await;
    server.send(vec![message("derived")]).await.expect("sent");
    let peek = v1::PeekRequest { queue: "q".into(), ..Default::default() };
    let peeked = server.messaging.peek(peek).await.expect("peeked").into_inner().messages;
    let ttl = |m: &v1::ReceivedMessage| m.message.as_ref().and_then(|message| message.ttl_ms);
    assert_eq!((peeked[0].expires_at_ms, ttl(&peeked[0])), (None, None));
    let got = server.receive(1).await;
    assert_eq!(ttl(&got[0]), default_ttl_ms);
    assert_eq!(got[0].expires_at_ms, Some(got[0].enqueued_at_ms + 3_600_000));
    assert_eq!(got[0].sent_ttl_ms, None, "a default is its queue's (TTL-28)");
    let longer = v1::Message { ttl_ms: Some(7_200_000), ..message("longer") };
    server.send(vec![longer]).await.expect("sent");
    let got = server.receive(1).await;
    assert_eq!((ttl(&got[0]), got[0].sent_ttl_ms), (default_ttl_ms, Some(7_200_000)));
}

#[tokio::test]
async fn err_17_a_secret_guards_everything_but_health() {
    let mut server = Server::start(Some("s3cret")).await;
    let status = server.cluster.now(v1::NowRequest {}).await.expect_err("no token");
    assert_eq!(status.code(), Code::Unauthenticated);
    assert!(status.message().contains("Authorization"), "{status:?}");
    let mut request = tonic::Request::new(v1::NowRequest {});
    request.metadata_mut().insert("authorization", "Bearer s3cret".parse().expect("a header"));
    server.cluster.now(request).await.expect("let in");
    assert_eq!(health(&server.channel).await, ServingStatus::Serving);
    let secret = Some("s3cret");
    for refused in
        [services(&server.channel, None).await, services_v1alpha(&server.channel, None).await]
    {
        assert_eq!(refused.expect_err("no key").code(), Code::Unauthenticated);
    }
    for services in
        [services(&server.channel, secret).await, services_v1alpha(&server.channel, secret).await]
    {
        let services = services.expect("let in");
        for service in ["Messaging", "Entities", "Cluster"] {
            assert!(services.contains(&format!("mayfly.v1.{service}")), "{services:?}");
        }
    }
}

async fn health(channel: &Channel) -> ServingStatus {
    let request = HealthCheckRequest { service: "mayfly.v1.Messaging".into() };
    let mut client = HealthClient::new(channel.clone());
    client.check(request).await.expect("an answer").into_inner().status()
}

/// With this key, if any.
fn with_key<T>(message: T, key: Option<&str>) -> tonic::Request<T> {
    let mut request = tonic::Request::new(message);
    if let Some(key) = key {
        let value = format!("Bearer {key}").parse().expect("a header");
        request.metadata_mut().insert("authorization", value);
    }
    request
}

async fn services(channel: &Channel, key: Option<&str>) -> Result<Vec<String>, tonic::Status> {
    let message_request = Some(MessageRequest::ListServices(String::new()));
    let request = ServerReflectionRequest { host: String::new(), message_request };
    let mut client = ServerReflectionClient::new(channel.clone());
    let request = with_key(tokio_stream::iter([request]), key);
    let answers = client.server_reflection_info(request).await?;
    let answer = answers.into_inner().message().await.expect("no error");
    match answer.and_then(|answer| answer.message_response) {
        Some(MessageResponse::ListServicesResponse(list)) => {
            Ok(list.service.into_iter().map(|service| service.name).collect())
        }
        other => panic!("{other:?}"),
    }
}

/// The same by the version of reflection that many tools still ask in.
async fn services_v1alpha(
    channel: &Channel,
    key: Option<&str>,
) -> Result<Vec<String>, tonic::Status> {
    use tonic_reflection::pb::v1alpha::server_reflection_client::ServerReflectionClient;
    use tonic_reflection::pb::v1alpha::server_reflection_request::MessageRequest;
    use tonic_reflection::pb::v1alpha::server_reflection_response::MessageResponse;

    let message_request = Some(MessageRequest::ListServices(String::new()));
    let request = tonic_reflection::pb::v1alpha::ServerReflectionRequest {
        host: String::new(),
        message_request,
    };
    let mut client = ServerReflectionClient::new(channel.clone());
    let request = with_key(tokio_stream::iter([request]), key);
    let answers = client.server_reflection_info(request).await?;
    let answer = answers.into_inner().message().await.expect("no error");
    match answer.and_then(|answer| answer.message_response) {
        Some(MessageResponse::ListServicesResponse(list)) => {
            Ok(list.service.into_iter().map(|service| service.name).collect())
        }
        other => panic!("{other:?}"),
    }
}
