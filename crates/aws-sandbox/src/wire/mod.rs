//! The protocols of the services: reads requests and writes answers, as AWS does.
//!
//! EC2 and IAM take forms and answer XML, SSM, SQS and the Price List JSON, EKS and zonal shift JSON by path. Errors look as each protocol
//! has them. A call of an action that the account does not know gets the service's own error.

mod ec2;
mod errors;
mod iam;
mod json_services;
mod params;
mod request;
mod rest_services;
mod xml;

pub(crate) use request::{WireAnswer, WireRequest};

use crate::account::{Account, Answer, Call, Refusal};
use errors::refused;
use jiff::{SignedDuration, Timestamp};
use params::Params;
use request::Service;
use std::collections::BTreeMap;

/// The result of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// An answer.
    Done(WireAnswer),
    /// A call that waits for messages, at most so long.
    Wait(SignedDuration),
}

/// How often a request was tried: a call that waits is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// For the first time.
    First,
    /// Again, because something changed.
    Again,
    /// For the last time: the wait has ended.
    Last,
}

/// How far the time of a signature may differ from that of the account.
const SKEW_MAX: SignedDuration = SignedDuration::from_mins(5);

/// What an action is called with.
enum Input {
    Form(Params),
    Json(serde_json::Value),
    /// The part of the path that names something.
    Path(String),
}

/// The action of a request; empty for one that has none.
pub(crate) fn action(request: &WireRequest<'_>) -> String {
    read(Service::of(request), request)
        .map(|(action, _)| action)
        .unwrap_or_default()
}

/// Refuses a request without looking at it.
pub(crate) fn refuse(request: &WireRequest<'_>, refusal: &Refusal, now: Timestamp) -> WireAnswer {
    refused(Service::of(request), refusal, now)
}

/// Answers a request.
pub(crate) fn answer(account: &mut Account, request: &WireRequest<'_>, attempt: Attempt, now: Timestamp) -> Reply {
    let service = Service::of(request);
    let (action, input) = match read(service, request) {
        Ok(read) => read,
        Err(refusal) => return Reply::Done(refused(service, &refusal, now)),
    };
    account.advance(now);
    let checked = match attempt {
        Attempt::First => check(account, service, &action, request, now),
        Attempt::Again | Attempt::Last => Ok(()),
    };
    let done = checked.and_then(|()| act(account, service, &action, &input, attempt, now));
    if account.records_calls && attempt == Attempt::First {
        account.calls.push(Call {
            at: now,
            client: request.client.to_owned(),
            service: service.name(),
            user_agent: request.header("x-amz-user-agent").unwrap_or_default().to_owned(),
            parameters: input.recorded(),
            error: done.as_ref().err().map(|refusal| refusal.code.clone()),
            action,
        });
    }
    match done {
        Ok(reply) => reply,
        Err(refusal) => Reply::Done(refused(service, &refusal, now)),
    }
}

impl Input {
    fn recorded(&self) -> BTreeMap<String, String> {
        match self {
            Self::Form(params) => params.flat(),
            Self::Json(body) => BTreeMap::from([("body".to_owned(), body.to_string())]),
            Self::Path(part) => BTreeMap::from([("path".to_owned(), part.clone())]),
        }
    }
}

/// The action of a request and what it is called with.
fn read(service: Service, request: &WireRequest<'_>) -> Answer<(String, Input)> {
    match service {
        Service::Ec2 | Service::Iam => {
            let params = Params::read(request.body);
            let action = params.text("Action").unwrap_or_default().to_owned();
            Ok((action, Input::Form(params)))
        }
        Service::Ssm | Service::Sqs | Service::Pricing => {
            let target = request.header("x-amz-target").unwrap_or_default();
            let action = target.rsplit('.').next().unwrap_or_default().to_owned();
            let body = serde_json::from_slice(request.body);
            let body = body.map_err(|_| Refusal::new("SerializationException", "The request is no JSON."))?;
            Ok((action, Input::Json(body)))
        }
        Service::Eks | Service::ZonalShift => {
            let (action, part) = rest_services::route(service, request).unwrap_or_default();
            Ok((action.to_owned(), Input::Path(part)))
        }
        Service::Unknown => Err(Refusal::new(
            "UnrecognizedClientException",
            "The request names no service of the account.",
        )),
    }
}

/// Who calls, when, how often, and whether they may.
fn check(
    account: &mut Account,
    service: Service,
    action: &str,
    request: &WireRequest<'_>,
    now: Timestamp,
) -> Answer<()> {
    if request.access_key() != Some(&*account.access_key) {
        return Err(errors::unknown_caller(service));
    }
    if request
        .signed_at()
        .is_none_or(|at| at.duration_since(now).abs() > SKEW_MAX)
    {
        return Err(errors::expired(service));
    }
    if service == Service::Ec2 {
        account.admit(action, now)?;
    }
    if account.denied.contains(&format!("{}:{action}", service.name())) {
        return Err(errors::denied(service, action, request.body));
    }
    Ok(())
}

fn act(
    account: &mut Account,
    service: Service,
    action: &str,
    input: &Input,
    attempt: Attempt,
    now: Timestamp,
) -> Answer<Reply> {
    let done = match (service, input) {
        (Service::Ec2, Input::Form(params)) => ec2::act(account, action, params, now)?,
        (Service::Iam, Input::Form(params)) => iam::act(account, action, params, now)?,
        (Service::Sqs, Input::Json(body)) => return json_services::sqs(account, action, body, attempt, now),
        (Service::Ssm, Input::Json(body)) => json_services::ssm(account, action, body, now)?,
        (Service::Pricing, Input::Json(body)) => json_services::pricing(account, action, body)?,
        (Service::Eks, Input::Path(name)) => rest_services::eks(account, action, name)?,
        (Service::ZonalShift, Input::Path(arn)) => rest_services::zonal_shift(account, action, arn)?,
        _ => return Err(errors::unknown_action(service, action)),
    };
    Ok(Reply::Done(done))
}
