//! RabbitMQ: a quorum queue on all nodes, publisher confirms, manual acknowledgements.

use bytes::Bytes;
use futures::{FutureExt, StreamExt};
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicPublishOptions, BasicQosOptions,
    ConfirmSelectOptions, QueueDeclareOptions, QueueDeleteOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties};

use crate::broker::{self, Confirmed, Error};

const QUEUE: &str = "lifecycle";
const PERSISTENT: u8 = 2;

pub struct RabbitQueue {
    /// The node that declared the queue leads it.
    leader: String,
    prefetch: u16,
    channel: Channel,
    /// Its channel lives no longer than it.
    _connection: Connection,
}

impl RabbitQueue {
    pub async fn create(nodes: &[String], prefetch: u16) -> Result<RabbitQueue, Error> {
        let leader = nodes.first().ok_or("no node was given")?.clone();
        let (connection, channel) = connect(&leader).await?;
        let mut arguments = FieldTable::default();
        arguments.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
        let replicas = i32::try_from(nodes.len())?;
        arguments.insert("x-quorum-initial-group-size".into(), AMQPValue::LongInt(replicas));
        channel.queue_declare(QUEUE.into(), QueueDeclareOptions::durable(), arguments).await?;
        Ok(RabbitQueue { leader, prefetch, channel, _connection: connection })
    }
}

async fn connect(node: &str) -> Result<(Connection, Channel), Error> {
    let address = format!("amqp://guest:guest@{node}/%2f");
    let connection = Connection::connect(&address, ConnectionProperties::default()).await?;
    let channel = connection.create_channel().await?;
    Ok((connection, channel))
}

impl broker::Queue for RabbitQueue {
    type Producer = RabbitProducer;
    type Consumer = RabbitConsumer;

    async fn producer(&self) -> Result<RabbitProducer, Error> {
        let (connection, channel) = connect(&self.leader).await?;
        channel.confirm_select(ConfirmSelectOptions::default()).await?;
        Ok(RabbitProducer { channel, _connection: connection })
    }

    async fn consumer(&self) -> Result<RabbitConsumer, Error> {
        let (connection, channel) = connect(&self.leader).await?;
        channel.basic_qos(self.prefetch, BasicQosOptions::default()).await?;
        let (options, arguments) = (BasicConsumeOptions::default(), FieldTable::default());
        let messages = channel.basic_consume(QUEUE.into(), "".into(), options, arguments).await?;
        Ok(RabbitConsumer { messages, _connection: connection })
    }

    async fn delete(&self) -> Result<(), Error> {
        self.channel.queue_delete(QUEUE.into(), QueueDeleteOptions::default()).await?;
        Ok(())
    }
}

pub struct RabbitProducer {
    channel: Channel,
    _connection: Connection,
}

impl broker::Producer for RabbitProducer {
    async fn send(&mut self, body: Bytes) -> Result<Confirmed, Error> {
        let channel = self.channel.clone();
        // Not awaited here: the client resolves a publishing once it is written to the socket, and to
        // wait for that each time would leave most of the window empty.
        let confirmed = async move {
            let properties = BasicProperties::default().with_delivery_mode(PERSISTENT);
            let options = BasicPublishOptions::default();
            let publish =
                channel.basic_publish("".into(), QUEUE.into(), options, &body, properties);
            match publish.await?.await?.is_ack() {
                true => Ok(()),
                false => Err("the broker did not store a message".into()),
            }
        };
        Ok(confirmed.boxed())
    }
}

pub struct RabbitConsumer {
    messages: lapin::Consumer,
    _connection: Connection,
}

impl broker::Consumer for RabbitConsumer {
    async fn next(&mut self) -> Result<(Bytes, Confirmed), Error> {
        let delivery = self.messages.next().await.ok_or("no more messages")??;
        let acker = delivery.acker;
        // The protocol has no answer to it: resolved means handed to the connection.
        let acknowledged = async move {
            acker.ack(BasicAckOptions::default()).await?;
            Ok(())
        };
        Ok((delivery.data.into(), acknowledged.boxed()))
    }
}
