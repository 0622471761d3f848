//! SQS on the SDK.

use super::errors::api_error;
use super::values::text;
use crate::services::{CallResult, QueueMessage, Sqs};
use async_trait::async_trait;
use aws_sdk_sqs::types::{Message, MessageSystemAttributeName};
use jiff::Timestamp;

/// How long a receive waits for messages, and how long the messages are hidden from others (AWS-301).
const WAIT_SECONDS: i32 = 20;
/// Most messages of a receive (AWS-301).
const MESSAGES_MAX: i32 = 10;

pub(super) struct SdkSqs(pub(super) aws_sdk_sqs::Client);

/// A message; `None` for one that could not be deleted, which SQS never sends.
fn message(from: &Message) -> Option<QueueMessage> {
    let attributes = from.attributes();
    let sent = attributes.and_then(|all| all.get(&MessageSystemAttributeName::SentTimestamp));
    Some(QueueMessage {
        receipt: from.receipt_handle()?.to_owned(),
        body: text(from.body()),
        sent: sent.and_then(|millis| Timestamp::from_millisecond(millis.parse().ok()?).ok()),
    })
}

#[async_trait]
impl Sqs for SdkSqs {
    async fn queue_url(&self, name: &str) -> CallResult<String> {
        let answer = self.0.get_queue_url().queue_name(name).send().await;
        let answer = answer.map_err(|error| api_error(&error))?;
        Ok(text(answer.queue_url()))
    }

    async fn receive(&self, queue_url: &str) -> CallResult<Vec<QueueMessage>> {
        let call = self.0.receive_message().queue_url(queue_url);
        let call = call.max_number_of_messages(MESSAGES_MAX);
        let call = call.visibility_timeout(WAIT_SECONDS).wait_time_seconds(WAIT_SECONDS);
        let call = call.message_system_attribute_names(MessageSystemAttributeName::SentTimestamp);
        let answer = call.message_attribute_names("All").send().await;
        let answer = answer.map_err(|error| api_error(&error))?;
        Ok(answer.messages().iter().filter_map(message).collect())
    }

    async fn delete(&self, queue_url: &str, receipt: &str) -> CallResult<()> {
        let call = self.0.delete_message().queue_url(queue_url).receipt_handle(receipt);
        call.send().await.map(drop).map_err(|error| api_error(&error))
    }
}
