//! A long past made up for measuring: words as unequally frequent as people's, four languages, identifiers, addresses.
//! Owns the dice and the texts; the same number of exchanges is always the same past.

use std::sync::Arc;

use crate::cli::dice::Dice;
use crate::core::effect::Fact;
use crate::core::exchange::{Asked, End, Trail, WhenOffline, Work};
use crate::core::ids::{AgentName, ConversationId, Millis, RequestId};
use crate::core::outcome::{Outcome, explain};
use crate::store::{Store, Written};

/// Between two questions.
const STEP_MS: u64 = 30_000;
/// Questions of one conversation.
const TURNS: u64 = 5;
const AGENTS: u64 = 40;
const VOCABULARY: u64 = 60_000;
const QUIET_MS: u64 = 120_000;
/// Exchanges handed to the store at once.
const BATCH: u64 = 500;

#[rustfmt::skip]
const COMMON: [&str; 40] = [
    "the", "de", "la", "is", "el", "to", "que", "and", "et", "en", "le", "server", "déploiement", "étape", "erreur", "timeout", "agent", "réponse",
    "invoice", "facture", "cliente", "producción", "deploy", "daemon", "failed", "vérifier", "request", "relay", "queue", "token", "año", "niño",
    "base", "données", "worker", "retry", "index", "search", "später", "müde",
];
#[rustfmt::skip]
const SYLLABLES: [&str; 24] = [
    "ba", "co", "di", "fé", "gu", "ha", "ji", "ka", "lo", "mé", "ni", "or", "pa", "qui", "ra", "sé", "ti", "ul", "vo", "wa", "xe", "yo", "zi", "ché",
];
const HAN: &str = "数据库连接超时请检查服务器配置订单已付款客户名称发票部署失败重试任务队列日志错误原因分析报告用户权限接口返回结果系统更新版本测试环境生产问题解决方案时间计划会议通知";

/// The commonest word of all.
pub(super) const COMMONEST: &str = COMMON[0];

pub(super) struct Past {
    dice: Dice,
    han: Vec<char>,
    begins: Millis,
    told: u64,
    /// Of the conversation that is being told.
    thread: (ConversationId, AgentName, AgentName),
}

impl Past {
    /// `count` exchanges, the last of them shortly before `now`.
    pub(super) fn new(now: Millis, count: u64) -> Self {
        let begins = Millis(now.0.saturating_sub((count + 1) * STEP_MS));
        let thread = (ConversationId::from_u128(0), agent(0), agent(1));
        Self { dice: Dice::new(0x9e37_79b9_7f4a_7c15), han: HAN.chars().collect(), begins, told: 0, thread }
    }

    /// Writes `count` exchanges; `each` hears how many there are.
    pub(super) async fn write(&mut self, store: &Store, count: u64, mut each: impl FnMut(u64)) -> Result<(), String> {
        while self.told < count {
            let mut facts = Vec::new();
            for _ in 0..BATCH.min(count - self.told) {
                facts.extend(self.exchange());
            }
            let permit = store.reserve().await.map_err(|e| e.to_string())?;
            let (told, done) = tokio::sync::oneshot::channel();
            store.submit(permit, facts, move |written| _ = told.send(written));
            if done.await != Ok(Written::Durable) {
                return Err("the past could not be written".to_owned());
            }
            each(self.told);
        }
        Ok(())
    }

    /// Question and end: about a kilobyte with names, ids and times.
    pub(super) fn exchange(&mut self) -> [Fact; 2] {
        let at = self.begins.plus(self.told * STEP_MS + self.dice.below(STEP_MS));
        let begins = self.told.is_multiple_of(TURNS);
        if begins {
            let (from, to) = (self.dice.seldom(AGENTS / 2), self.dice.seldom(AGENTS / 2));
            self.thread = (ConversationId(self.dice.uuid(at)), agent(from), agent(AGENTS / 2 + to));
        }
        let (conversation, from, to) = self.thread.clone();
        let (question, answer) = (150 + self.dice.below(200) as usize, 300 + self.dice.below(650) as usize);
        let id = RequestId(self.dice.uuid(at));
        let asked = Asked {
            id,
            conversation,
            begins,
            from: from.clone(),
            to: to.as_str().into(),
            message: self.text(question).into(),
            at,
            when_offline: WhenOffline::Fail,
            trail: Trail { root: id, parent: None, origin: from.clone(), path: [from].into() },
            key: None,
            traceparent: None,
        };
        self.told += 1;
        let late = self.dice.below(20) == 0;
        let (outcome, took) = if late { (Outcome::Timeout, QUIET_MS) } else { (Outcome::Answered, 300 + self.dice.seldom(600_000)) };
        let text = if late { explain(outcome, &to, None, QUIET_MS) } else { self.text(answer) };
        let end = End { outcome, text: text.into(), at: at.plus(took), call: None, by: None };
        [Fact::Asked(Arc::new(asked)), Fact::Ended { id, end: Arc::new(end), work: Work::default() }]
    }

    fn text(&mut self, bytes: usize) -> String {
        let chinese = self.dice.below(100) < 15;
        let mut out = String::with_capacity(bytes + 64);
        while out.len() < bytes {
            match self.dice.below(200) {
                0 if self.dice.below(4) == 0 => out.push_str(&format!("{} ", self.dice.uuid(Millis(1)))),
                1 => out.push_str(&format!("https://host{}.example/doc/{} ", self.dice.below(50), self.word())),
                2 => out.push_str(&format!("{}_{}_ms ", self.word(), self.word())),
                3 => out.push_str(&format!("F-{} ", self.dice.below(100_000))),
                _ if chinese => {
                    for _ in 0..2 + self.dice.below(6) {
                        let n = self.dice.seldom(self.han.len() as u64);
                        out.extend(usize::try_from(n).ok().and_then(|n| self.han.get(n)));
                    }
                }
                _ => {
                    out.push_str(&self.word());
                    out.push(' ');
                }
            }
        }
        out
    }

    fn word(&mut self) -> String {
        let n = self.dice.seldom(VOCABULARY);
        if let Some(word) = usize::try_from(n).ok().and_then(|n| COMMON.get(n)) {
            return (*word).to_owned();
        }
        let (mut n, mut word) = (n, String::new());
        while n > 0 {
            word.push_str(SYLLABLES[(n % 24) as usize]);
            n /= 24;
        }
        word
    }

    /// What people type: a word or two that are not the forty of every text, a sender, an invoice's number.
    pub(super) fn query(&mut self, n: usize) -> String {
        let mut rare = || loop {
            let word = self.word();
            if !COMMON.contains(&word.as_str()) {
                break word;
            }
        };
        match n % 6 {
            0 => format!("{} ", rare()),
            1 => format!("{} {} ", rare(), rare()),
            2 => format!("{} {}", rare(), rare()),
            3 => format!("{} from:{} ", rare(), agent(n as u64 % 5)),
            4 => format!("F-{}", self.dice.below(100_000)),
            _ => format!("{} -{} status:timeout", rare(), rare()),
        }
    }
}

fn agent(n: u64) -> AgentName {
    AgentName::parse(&format!("agent-{n}-bot")).unwrap_or_else(|| unreachable!("a number makes a name"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exchange_has_about_a_kilobyte_with_its_names_and_ids_and_the_commonest_word_is_common() {
        let mut past = Past::new(Millis(1_796_036_400_000), 2_000);
        let (mut bytes, mut with) = (0, 0);
        for _ in 0..2_000 {
            let [Fact::Asked(asked), Fact::Ended { end, .. }] = past.exchange() else { panic!("a question and its end") };
            let ids = 2 * 36 + asked.from.as_str().len() + asked.to.len() + 2 * 13;
            bytes += asked.message.len() + end.text.len() + ids;
            with += usize::from(asked.message.contains(COMMONEST) || end.text.contains(COMMONEST));
            assert!(asked.at < Millis(1_796_036_400_000));
        }
        assert!((900..1_100).contains(&(bytes / 2_000)), "{} bytes each", bytes / 2_000);
        assert!(with > 1_500, "{with} of 2,000 have {COMMONEST}");
    }
}
