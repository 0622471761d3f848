//! SQS queues.

use super::refusal::{Answer, Refusal};
use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeMap;

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuedMessage {
    /// Id.
    pub id: String,
    /// Text.
    pub body: String,
    /// When it was put into the queue.
    pub sent: Timestamp,
    /// From when on it can be received.
    pub visible_from: Timestamp,
    /// How often it was received.
    pub received: u32,
}

/// A queue. Messages are received at least once: one that is not deleted is received again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Queue {
    /// Messages in the order of their coming.
    pub messages: Vec<QueuedMessage>,
    /// How long events take on their way to the queue.
    pub delay: SignedDuration,
    /// Whether every event is sent twice.
    pub twice: bool,
    sent: u64,
}

/// A received message with what deletes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// What deletes the message.
    pub receipt: String,
    /// The message.
    pub message: QueuedMessage,
}

impl Queue {
    /// Puts a text into the queue.
    pub fn send(&mut self, body: &str, now: Timestamp) {
        for _ in 0..if self.twice { 2 } else { 1 } {
            self.sent += 1;
            self.messages.push(QueuedMessage {
                id: format!("message-{}", self.sent),
                body: body.to_owned(),
                sent: now,
                visible_from: now + self.delay,
                received: 0,
            });
        }
    }

    /// At most `max` messages, which stay hidden for a while.
    pub fn receive(&mut self, max: usize, hidden_for: SignedDuration, now: Timestamp) -> Vec<Delivery> {
        let visible = self.messages.iter_mut().filter(|message| message.visible_from <= now);
        let mut received = Vec::new();
        for message in visible.take(max) {
            message.received += 1;
            message.visible_from = now + hidden_for;
            received.push(Delivery {
                receipt: format!("{}#{}", message.id, message.received),
                message: message.clone(),
            });
        }
        received
    }

    /// Deletes the message of a receipt. Deleting it again is no error.
    pub fn delete(&mut self, receipt: &str) -> Answer<()> {
        let (id, _) = receipt.split_once('#').ok_or_else(|| {
            let message = format!("The input receipt handle \"{receipt}\" is not a valid receipt handle.");
            Refusal::new("ReceiptHandleIsInvalid", message)
        })?;
        self.messages.retain(|message| message.id != id);
        Ok(())
    }

    /// When the next message can be received.
    pub(super) fn next_visible(&self) -> Option<Timestamp> {
        self.messages.iter().map(|message| message.visible_from).min()
    }
}

/// Queues by name.
pub type Queues = BTreeMap<String, Queue>;

/// A queue by its name.
pub(super) fn queue<'a>(queues: &'a mut Queues, name: &str) -> Answer<&'a mut Queue> {
    let missing = || {
        // The code of the query protocol, which SDKs read from a header, and that of the JSON protocol differ.
        let message = "The specified queue does not exist.";
        Refusal::new("QueueDoesNotExist", message)
    };
    queues.get_mut(name).ok_or_else(missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_comes_back_until_it_is_deleted() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let later = |seconds| now + SignedDuration::from_secs(seconds);
        let hidden = SignedDuration::from_secs(20);
        let mut queue = Queue::default();
        queue.send("a", now);
        queue.send("b", now);
        assert_eq!(queue.receive(1, hidden, now)[0].message.body, "a");
        assert_eq!(queue.receive(10, hidden, now)[0].message.body, "b");
        assert!(queue.receive(10, hidden, later(19)).is_empty());
        let again = queue.receive(10, hidden, later(20));
        assert_eq!(again.len(), 2);
        queue.delete(&again[0].receipt).unwrap();
        queue.delete(&again[0].receipt).unwrap();
        assert_eq!(queue.receive(10, hidden, later(40)).len(), 1);
        assert_eq!(queue.delete("x").unwrap_err().code, "ReceiptHandleIsInvalid");
    }

    #[test]
    fn events_may_come_late_and_twice() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let mut queue = Queue {
            delay: SignedDuration::from_secs(5),
            twice: true,
            ..Queue::default()
        };
        queue.send("a", now);
        assert!(queue.receive(10, SignedDuration::ZERO, now).is_empty());
        assert_eq!(queue.next_visible(), Some(now + SignedDuration::from_secs(5)));
        assert_eq!(
            queue
                .receive(10, SignedDuration::ZERO, now + SignedDuration::from_secs(5))
                .len(),
            2
        );
    }
}
