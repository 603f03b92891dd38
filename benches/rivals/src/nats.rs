//! NATS JetStream: a stream kept in files on all nodes, whose messages end when they are acknowledged
//! (retention by work queue), and one durable pull consumer that all workers share.

use std::time::{Duration, Instant};

use async_nats::jetstream::consumer::{Consumer as PullConsumer, pull};
use async_nats::jetstream::stream::{Config, RetentionPolicy, StorageType};
use async_nats::jetstream::{self, Context};
use async_nats::{Client, ConnectOptions};
use bytes::Bytes;
use futures::{FutureExt, StreamExt};

use crate::broker::{self, Confirmed, Error};

const STREAM: &str = "lifecycle";
const WORKERS: &str = "workers";
const ACK: Bytes = Bytes::from_static(b"+ACK");
/// A cluster that has just started takes a while until it can place a stream.
const READY_WITHIN: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(250);
/// For one answer: a slow one is a figure, not an error.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug)]
pub struct Settings {
    pub replicas: usize,
    pub prefetch: usize,
    /// Of all consumers together.
    pub unacknowledged_max: usize,
    /// Await the answer to every acknowledgement, as Mayfly's clients do. Without it, one that is lost
    /// on the way means a second delivery.
    pub acks_confirmed: bool,
}

pub struct NatsQueue {
    /// The address of the node that leads the stream.
    leader: String,
    context: Context,
    settings: Settings,
}

impl NatsQueue {
    /// Creates the stream. The nodes' names are their addresses.
    pub async fn create(nodes: &[String], settings: Settings) -> Result<NatsQueue, Error> {
        let until = Instant::now() + READY_WITHIN;
        loop {
            match NatsQueue::attempt(nodes, settings).await {
                Ok(queue) => return Ok(queue),
                Err(error) if Instant::now() > until => return Err(error),
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    async fn attempt(nodes: &[String], settings: Settings) -> Result<NatsQueue, Error> {
        let context = jetstream::new(async_nats::connect(nodes).await?);
        let config = Config {
            name: STREAM.into(),
            subjects: vec![STREAM.into()],
            retention: RetentionPolicy::WorkQueue,
            storage: StorageType::File,
            num_replicas: settings.replicas,
            ..Config::default()
        };
        let mut stream = context.get_or_create_stream(config).await?;
        let workers = pull::Config {
            durable_name: Some(WORKERS.into()),
            max_ack_pending: i64::try_from(settings.unacknowledged_max)?,
            ..pull::Config::default()
        };
        stream.create_consumer(workers).await?;
        let cluster = stream.info().await?.cluster.clone().ok_or("the stream names no cluster")?;
        let leader = cluster.leader.ok_or("the stream has no leader")?;
        if cluster.replicas.len() + 1 < settings.replicas {
            return Err("the stream has not all its replicas".into());
        }
        Ok(NatsQueue { leader, context, settings })
    }

    async fn connect(&self) -> Result<Client, Error> {
        let options = ConnectOptions::new().request_timeout(Some(ANSWER_WITHIN));
        Ok(options.connect(&self.leader).await?)
    }
}

impl broker::Queue for NatsQueue {
    type Producer = NatsProducer;
    type Consumer = NatsConsumer;

    async fn producer(&self) -> Result<NatsProducer, Error> {
        let mut context = jetstream::new(self.connect().await?);
        context.set_timeout(ANSWER_WITHIN);
        Ok(NatsProducer(context))
    }

    async fn consumer(&self) -> Result<NatsConsumer, Error> {
        let client = self.connect().await?;
        let context = jetstream::new(client.clone());
        let consumer: PullConsumer<pull::Config> =
            context.get_consumer_from_stream(WORKERS, STREAM).await?;
        let messages =
            consumer.stream().max_messages_per_batch(self.settings.prefetch).messages().await?;
        Ok(NatsConsumer { client, messages, acks_confirmed: self.settings.acks_confirmed })
    }

    async fn delete(&self) -> Result<(), Error> {
        self.context.delete_stream(STREAM).await?;
        Ok(())
    }
}

pub struct NatsProducer(Context);

impl broker::Producer for NatsProducer {
    async fn send(&mut self, body: Bytes) -> Result<Confirmed, Error> {
        let stored = self.0.publish(STREAM, body).await?.into_future();
        Ok(async move { Ok(stored.await.map(|_| ())?) }.boxed())
    }
}

pub struct NatsConsumer {
    client: Client,
    messages: pull::Stream,
    acks_confirmed: bool,
}

impl broker::Consumer for NatsConsumer {
    async fn next(&mut self) -> Result<(Bytes, Confirmed), Error> {
        let message = self.messages.next().await.ok_or("no more messages")??.message;
        let reply = message.reply.ok_or("a message that cannot be acknowledged")?;
        let (client, confirmed) = (self.client.clone(), self.acks_confirmed);
        let acknowledged = async move {
            match confirmed {
                // Over the connection's one inbox; the client's own `double_ack` makes one for each.
                true => drop(client.request(reply, ACK).await?),
                false => client.publish(reply, ACK).await?,
            }
            Ok(())
        };
        Ok((message.payload, acknowledged.boxed()))
    }
}
