//! The services whose calls are JSON texts: SSM, SQS and the Price List.

use super::errors::unknown_action;
use super::request::{Service, WireAnswer};
use super::{Attempt, Reply};
use crate::account::{Account, Answer, Delivery, PageRequest, Queue, Refusal};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

fn text<'a>(body: &'a Value, name: &str) -> Answer<&'a str> {
    body[name].as_str().ok_or_else(|| Refusal::missing(name))
}

/// SSM.
pub(super) fn ssm(account: &mut Account, action: &str, body: &Value, now: Timestamp) -> Answer<WireAnswer> {
    if action != "GetParameter" {
        return Err(unknown_action(Service::Ssm, action));
    }
    let name = text(body, "Name")?;
    let value = account.parameter(name, now)?;
    Ok(WireAnswer::json(
        &json!({"Parameter": {"Name": name, "Type": "String", "Value": value, "Version": 1}}),
    ))
}

/// The Price List.
pub(super) fn pricing(account: &Account, action: &str, body: &Value) -> Answer<WireAnswer> {
    if action != "GetProducts" {
        return Err(unknown_action(Service::Pricing, action));
    }
    let service = text(body, "ServiceCode")?;
    if service != "AmazonEC2" {
        return Err(Refusal::new("NotFoundException", format!("No service {service}.")));
    }
    let mut filters = Vec::new();
    for filter in body["Filters"].as_array().into_iter().flatten() {
        let kind = text(filter, "Type")?;
        if kind != "TERM_MATCH" {
            return Err(Refusal::new(
                "InvalidParameterException",
                format!("Filters of type {kind} are not supported."),
            ));
        }
        filters.push((text(filter, "Field")?.to_owned(), text(filter, "Value")?.to_owned()));
    }
    let max = body["MaxResults"].as_u64().and_then(|max| usize::try_from(max).ok());
    let page = PageRequest {
        max: Some(max.unwrap_or(100)),
        token: body["NextToken"].as_str().map(str::to_owned),
    };
    let page = account.products(&filters, &page)?;
    Ok(WireAnswer::json(
        &json!({"FormatVersion": "aws_v1", "PriceList": page.items, "NextToken": page.next}),
    ))
}

fn queue_name(url: &str) -> &str {
    url.rsplit('/').next().unwrap_or_default()
}

fn delivery(delivery: &Delivery) -> Value {
    let message = &delivery.message;
    json!({
        "MessageId": message.id, "ReceiptHandle": delivery.receipt, "Body": message.body,
        "Attributes": {"SentTimestamp": message.sent.as_millisecond().to_string()},
    })
}

/// SQS.
pub(super) fn sqs(
    account: &mut Account,
    action: &str,
    body: &Value,
    attempt: Attempt,
    now: Timestamp,
) -> Answer<Reply> {
    let seconds = |name: &str| SignedDuration::from_secs(body[name].as_i64().unwrap_or(0));
    let answer = match action {
        "GetQueueUrl" => {
            let name = text(body, "QueueName")?;
            account.queue(name)?;
            let url = format!("https://sqs.{}.amazonaws.com/{}/{name}", account.region, account.id);
            json!({"QueueUrl": url})
        }
        "ReceiveMessage" => {
            let queue: &mut Queue = account.queue(queue_name(text(body, "QueueUrl")?))?;
            let max = body["MaxNumberOfMessages"].as_u64().unwrap_or(1);
            if !(1..=10).contains(&max) {
                return Err(Refusal::invalid_value("MaxNumberOfMessages", &max.to_string()));
            }
            let received = queue.receive(usize::try_from(max).unwrap_or(1), seconds("VisibilityTimeout"), now);
            let wait = seconds("WaitTimeSeconds");
            if received.is_empty() && attempt != Attempt::Last && wait > SignedDuration::ZERO {
                return Ok(Reply::Wait(wait));
            }
            json!({"Messages": received.iter().map(delivery).collect::<Vec<_>>()})
        }
        "DeleteMessage" => {
            let receipt = text(body, "ReceiptHandle")?;
            account.queue(queue_name(text(body, "QueueUrl")?))?.delete(receipt)?;
            json!({})
        }
        _ => return Err(unknown_action(Service::Sqs, action)),
    };
    Ok(Reply::Done(WireAnswer::json(&answer)))
}
