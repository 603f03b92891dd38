//! Links: asked for, answered, ended.

use amqp_protocol::codec::{
    AnyTarget, Attach, Error, Map, ReceiverSettleMode, Role, SenderSettleMode, Source, Symbols,
    Target, Value,
};
use amqp_protocol::engine::{Event, LinkId};
use anyhow::{Context, bail};

use super::AmqpClient;

impl AmqpClient {
    /// A link to `address`, or why it was refused.
    pub fn sender(&mut self, address: &str) -> anyhow::Result<Result<LinkId, Error>> {
        self.attach(address, Role::Sender, SenderSettleMode::Unsettled)
    }

    /// A link from `address`, without credit. `delete`: messages come settled.
    pub fn receiver(
        &mut self,
        address: &str,
        delete: bool,
    ) -> anyhow::Result<Result<LinkId, Error>> {
        let mode = if delete { SenderSettleMode::Settled } else { SenderSettleMode::Unsettled };
        self.attach(address, Role::Receiver, mode)
    }

    /// A link from one session of `address`: the value of its filter is that of the session's name, null
    /// for the next that is free. Tells what the server said of it.
    pub fn session(
        &mut self,
        address: &str,
        filter: Value,
        wait_ms: u32,
    ) -> anyhow::Result<Result<(LinkId, Attach), Error>> {
        let link = self.ask_for_session(address, filter, wait_ms)?;
        self.attached(link, Role::Receiver).map(|attached| attached.map(|attach| (link, attach)))
    }

    /// As [`AmqpClient::session`], without waiting for an answer.
    pub fn ask_for_session(
        &mut self,
        address: &str,
        filter: Value,
        wait_ms: u32,
    ) -> anyhow::Result<LinkId> {
        let filter = Map::default().symbol("com.microsoft:session-filter", filter);
        let mut attach = self.attach_filtered(address, filter);
        let wait = Value::Uint(wait_ms);
        attach.properties = Some(Map::default().symbol("com.microsoft:timeout", wait));
        self.ask(attach)
    }

    /// A link from `address` with a filter of any kind.
    pub fn filtered(
        &mut self,
        address: &str,
        filter: Map,
    ) -> anyhow::Result<Result<Attach, Error>> {
        let attach = self.attach_filtered(address, filter);
        let link = self.ask(attach)?;
        self.attached(link, Role::Receiver)
    }

    fn attach_filtered(&mut self, address: &str, filter: Map) -> Attach {
        let mut attach = self.attach_of(address, Role::Receiver, SenderSettleMode::Unsettled);
        attach.source.get_or_insert_default().filter = Some(filter);
        attach
    }

    fn attach(
        &mut self,
        address: &str,
        role: Role,
        snd_settle_mode: SenderSettleMode,
    ) -> anyhow::Result<Result<LinkId, Error>> {
        let attach = self.attach_of(address, role, snd_settle_mode);
        let link = self.ask(attach)?;
        self.attached(link, role).map(|attached| attached.map(|_| link))
    }

    fn attach_of(
        &mut self,
        address: &str,
        role: Role,
        snd_settle_mode: SenderSettleMode,
    ) -> Attach {
        self.links += 1;
        Attach {
            name: format!("link-{}", self.links).into(),
            handle: 0,
            role,
            snd_settle_mode,
            rcv_settle_mode: ReceiverSettleMode::Second,
            source: Some(Source { address: Some(address.into()), ..Source::default() }),
            target: Some(AnyTarget::Node(Target {
                address: Some(address.into()),
                ..Target::default()
            })),
            unsettled: None,
            incomplete_unsettled: false,
            initial_delivery_count: (role == Role::Sender).then_some(0),
            max_message_size: None,
            offered_capabilities: Symbols::default(),
            desired_capabilities: Symbols::default(),
            properties: None,
        }
    }

    fn ask(&mut self, attach: Attach) -> anyhow::Result<LinkId> {
        let session = self.session.context("no session")?;
        let link = self.engine.attach(session, attach)?;
        self.turn()?;
        Ok(link)
    }

    /// What the server answers to an attach.
    pub fn attached(&mut self, link: LinkId, role: Role) -> anyhow::Result<Result<Attach, Error>> {
        let found = self.wait(
            "attach",
            |event| matches!(event, Event::Attached { link: of, .. } if *of == link),
        )?;
        let Event::Attached { attach, .. } = found else { bail!("no attach") };
        // A refusal shows a link whose terminus on that side is missing, and then ends it.
        let is_refused = match role {
            Role::Sender => attach.target.is_none(),
            Role::Receiver => attach.source.is_none(),
        };
        if !is_refused {
            return Ok(Ok(*attach));
        }
        self.detached(link).map(Err)
    }

    /// Ends the link.
    pub fn close(&mut self, link: LinkId) -> anyhow::Result<()> {
        self.engine.detach(link, None)?;
        self.turn()
    }

    /// Tells what a sender link takes: the attach it was answered with.
    pub fn sender_attach(&mut self, address: &str) -> anyhow::Result<Result<Attach, Error>> {
        let attach = self.attach_of(address, Role::Sender, SenderSettleMode::Unsettled);
        let link = self.ask(attach)?;
        self.attached(link, Role::Sender)
    }

    /// Waits until the link is ended by the other side, and tells why.
    pub fn detached(&mut self, link: LinkId) -> anyhow::Result<Error> {
        let found = self.wait(
            "detach",
            |event| matches!(event, Event::Detached { link: of, .. } if *of == link),
        )?;
        match found {
            Event::Detached { error: Some(error), .. } => Ok(error),
            other => bail!("no reason: {other:?}"),
        }
    }
}
