//! The queues of a bench.

use client::{Client, v1};
use futures::{StreamExt, TryStreamExt, stream};

use crate::Error;

/// Created or deleted at a time.
const AT_A_TIME: usize = 32;

/// Creates queues; the names of all of them.
pub(crate) async fn create_queues(
    client: &Client,
    names: Vec<String>,
    properties: &v1::QueueProperties,
) -> Result<Vec<String>, Error> {
    let creations = stream::iter(names.clone()).map(|name| async move {
        let created = client.create_queue(&name, properties.clone()).await;
        created.map(drop)
    });
    creations.buffer_unordered(AT_A_TIME).try_collect::<()>().await?;
    Ok(names)
}

/// Deletes queues once the figures are there, which stand either way: a queue left behind is only
/// litter. Gives up where nobody answers.
pub(crate) async fn delete_queues(client: &Client, names: Vec<String>) {
    let deletions = stream::iter(names).map(|name| async move {
        match client.delete_queue(&name).await {
            Ok(_) | Err(client::Error::Refused(_)) => Ok(()),
            Err(unanswered) => Err(unanswered),
        }
    });
    let _ = deletions.buffer_unordered(AT_A_TIME).try_collect::<()>().await;
}
