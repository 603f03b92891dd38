//! Where messages go, and with what proof.

use client::{Client, ClientOptions};

use crate::Error;
use crate::file::LoadFile;
use crate::over_amqp::{AmqpTarget, Sasl};

/// What is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spoken {
    Grpc,
    /// Without a way to log in: plain where there is a key, and anonymous where there is none.
    Amqp(Option<Sasl>),
}

/// A broker, as commands name it; workers are told it in these words.
#[derive(Clone, Debug)]
pub struct TargetAddress {
    pub spoken: Spoken,
    pub addresses: Vec<String>,
    /// The key, whom to trust, and how long to try.
    pub options: ClientOptions,
}

impl TargetAddress {
    /// What it is to be reached by. Nothing is connected yet.
    ///
    /// # Errors
    /// Addresses, keys or certificates that are none, in one sentence.
    pub fn open(&self) -> Result<Target, Error> {
        match self.spoken {
            Spoken::Grpc => {
                let client = Client::with_options(&self.addresses, self.options.clone());
                client
                    .map(Target::Grpc)
                    .map_err(|error| Error::Wrong(error.detail().message.clone()))
            }
            Spoken::Amqp(sasl) => {
                let target = AmqpTarget::new(self.addresses.clone(), &self.options, sasl);
                target.map(Target::Amqp).map_err(Error::Wrong)
            }
        }
    }

    /// As people call it.
    pub fn name(&self) -> String {
        self.addresses.join(",")
    }

    /// As reports have it.
    pub fn protocol(&self) -> &'static str {
        match self.spoken {
            Spoken::Grpc => "gRPC",
            Spoken::Amqp(_) => "AMQP",
        }
    }
}

/// A broker that can be reached.
#[derive(Clone)]
pub enum Target {
    Grpc(Client),
    Amqp(AmqpTarget),
}

impl Target {
    /// Sees that somebody is there who lets this client in and offers what a file needs: before anything is created.
    ///
    /// # Errors
    /// [`Error::Wrong`], in one sentence.
    pub async fn offers(&self, file: &LoadFile) -> Result<(), Error> {
        match self {
            // Entities are looked at when links are opened; the API has all that a file may ask for.
            Target::Grpc(client) => client.now().await.map(drop).map_err(Error::of_target),
            Target::Amqp(target) => target.offers(&file.needs).await,
        }
    }
}
