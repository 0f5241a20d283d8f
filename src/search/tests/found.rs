//! What is found: among 320 exchanges in French, Spanish, English and Chinese each search finds exactly those that it should.

use super::super::highlight::Highlighter;
use super::*;

/// Exchanges 0.. that the searches are about.
const SPECIAL: [(&str, &str, &str, &str); 26] = [
    ("daniel-bot", "helpdesk-bot", "Quelle est la première étape ?", "L'étape une : vérifier les droits."),
    ("daniel-bot", "helpdesk-bot", "Le service est-il DÉPLOYÉ ?", "Oui, tout est en ligne."),
    ("compta-bot", "helpdesk-bot", "Statut de la facture F-2291", "Payée hier."),
    ("sre-bot", "ops-bot", "连接数据库超时了，怎么办？", "请检查连接池。"),
    ("sre-bot", "ops-bot", "订单2291已付款，等待30秒", "好的"),
    ("sre-bot", "ops-bot", "パリの天気は？", "晴れです"),
    ("sre-bot", "ops-bot", "ハリの天気は？", "雨です"),
    ("ana-bot", "ops-bot", "¿Cuántos niños hay en la producción del año?", "Doscientos."),
    ("ana-bot", "ops-bot", "What does ask_timeout_ms mean?", "Silence, in milliseconds."),
    ("ana-bot", "ops-bot", "Ask about the timeout in ms", "No idea."),
    ("ana-bot", "ops-bot", "See https://docs.example.org/relay/setup?v=2#quiet", "Read it."),
    ("ana-bot", "ops-bot", "Look at request 0d9f3c1e-7b2a-4c55-9e1f-aa00bb11cc22 please", "Seen."),
    ("ana-bot", "ops-bot", "the quick brown fox", "jumps over the lazy dog"),
    ("ana-bot", "ops-bot", "the brown quick fox", "sleeps under the lazy dog"),
    ("ana-bot", "ops-bot", "Straße gesperrt bei İzmir", "ﬁn"),
    ("ana-bot", "ops-bot", "ＡＢＣ１２３ full width", "ok then"),
    ("ana-bot", "ops-bot", "데이터베이스를 확인해 주세요", "네"),
    ("ana-bot", "ops-bot", "Release 🚀 is out ✅ finally", "great"),
    ("ana-bot", "ops-bot", "host.example is down", "restarting host"),
    ("ana-bot", "ops-bot", "deployment pipeline", "green"),
    ("ana-bot", "ops-bot", "de\u{301}cale\u{301} d'un jour", "bien"),
    ("ana-bot", "ops-bot", "C'est l'été à l'équipe", "oui"),
    ("ana-bot", "ops-bot", "10.0.0.17 and v2.11.3", "pinged"),
    ("ana-bot", "ops-bot", "库", "只有一个字"),
    ("ana-bot", "ops-bot", "Ёлка и Молоко", "да"),
    ("ana-bot", "ops-bot", "a@b.example wrote", "mail"),
];

/// The rest: words that no search below is about, and that no word below begins.
const FILLER: [(&str, &str); 4] = [
    ("Peux-tu relire ce paragraphe numéro", "Relu, rien à signaler."),
    ("¿Puedes resumir el informe mensual", "Resumen listo."),
    ("Could you summarise meeting notes", "Summary attached."),
    ("请总结会议纪要", "总结如下"),
];

fn seeded() -> Vec<Record> {
    let special = SPECIAL.iter().enumerate().map(|(n, (from, to, message, answer))| exchange(n as u64, from, to, message, answer));
    let rest = (SPECIAL.len()..320).map(|n| {
        let (message, answer) = FILLER[n % FILLER.len()];
        exchange(n as u64, "filler-bot", "other-bot", &format!("{message} {n}{n}"), answer)
    });
    special.chain(rest).collect()
}

#[test]
fn each_search_finds_exactly_what_it_should() {
    let (dir, records) = (tempfile::tempdir().unwrap(), seeded());
    let index = holding(dir.path(), &records);
    for (text, want) in [
        ("etape", &[0][..]),
        ("ÉTAPE ", &[0]),
        ("DEPLOYE", &[1]),
        ("de\u{301}ploye\u{301} ", &[1]),
        ("décalé ", &[20]),
        ("decale", &[20]),
        ("F-2291", &[2]),
        ("f2291", &[]),
        ("2291", &[2, 4]),
        ("超时", &[3]),
        ("数据库", &[3]),
        ("数据库超时", &[3]),
        ("库", &[3, 23]),
        ("据", &[3]),
        ("办", &[3]),
        ("时", &[3]),
        ("数库", &[]),
        ("订单2291", &[4]),
        ("2291已付", &[4]),
        ("等待30秒", &[4]),
        ("30秒", &[4]),
        ("秒", &[4]),
        ("パリ", &[5]),
        ("ハリ", &[6]),
        ("パ", &[5]),
        ("ハ", &[6]),
        ("ﾊﾟﾘ", &[5]),
        ("天気", &[5, 6]),
        ("ninos", &[7]),
        ("ano ", &[7]),
        ("produccion", &[7]),
        ("ask_timeout_ms", &[8]),
        ("ASK_TIMEOUT_MS ", &[8]),
        ("ask_timeout", &[8]),
        ("ask_tim", &[8]),
        ("timeout_ms ", &[8]),
        ("timeout", &[8, 9]),
        ("https://docs.example.org/relay/setup?v=2#quiet", &[10]),
        ("docs.example.org", &[10]),
        ("relay/set", &[10]),
        ("0d9f3c1e", &[11]),
        ("0d9f3c1e-7b2a", &[11]),
        ("0d9f3c1e-7b2a-4c55-9e1f-aa00bb11cc22", &[11]),
        ("aa00bb11cc22", &[11]),
        ("\"quick brown\"", &[12]),
        ("\"quick brown", &[12]),
        ("“quick brown”", &[12]),
        ("quick brown ", &[12, 13]),
        ("quick brown -jumps", &[13]),
        ("quick -\"brown quick\"", &[12]),
        ("fox dog ", &[12, 13]),
        ("\"fox jumps\"", &[]),
        ("strasse", &[14]),
        ("izmir", &[14]),
        ("fin ", &[14]),
        ("fin", &[14, 17]),
        ("abc123", &[15]),
        ("데이터", &[16]),
        ("베이스", &[16]),
        ("🚀", &[17]),
        ("\"release is out finally\"", &[17]),
        ("✅", &[17]),
        ("host.example", &[18]),
        ("host.exam", &[18]),
        ("deploym", &[19]),
        ("\"deploy\"", &[]),
        ("deploy*", &[1, 19]),
        ("ete ", &[21]),
        ("l'equipe", &[21]),
        ("10.0.0.17", &[22]),
        ("v2.11", &[22]),
        ("елка молоко", &[24]),
        ("a@b.example", &[25]),
        ("daniel", &[0, 1]),
        ("from:daniel-bot", &[0, 1]),
        ("from:Daniel-Bot étape", &[0]),
        ("agent:helpdesk-bot", &[0, 1, 2]),
        ("from:daniel-bot from:compta-bot", &[0, 1, 2]),
        ("to:helpdesk-bot -from:daniel-bot", &[2]),
        ("after:2h", &[0, 1, 2]),
        ("after:2h before:1h", &[2]),
        ("-before:2h", &[0, 1, 2]),
        ("after:2026-11-30T09:30:00Z", &[0, 1]),
        ("slower:24s before:2026-11-29T11:00:00Z -from:filler-bot", &[25]),
    ] {
        assert_eq!(found(&index, &records, text), want, "{text}");
    }
}

#[test]
fn an_exchange_is_found_by_the_beginning_of_its_id_or_conversation() {
    let (dir, records) = (tempfile::tempdir().unwrap(), seeded());
    let index = holding(dir.path(), &records);
    let id = records[40].asked.id.to_string();
    assert_eq!(found(&index, &records, &id), [40]);
    assert_eq!(found(&index, &records, &id[..8]), [40]);
    assert_eq!(found(&index, &records, &id[..13]), [40]);
    let conversation = records[42].asked.conversation.to_string();
    assert_eq!(found(&index, &records, &format!("conversation:{conversation}")), [42]);
    assert_eq!(found(&index, &records, &format!("conversation:{}", &conversation[..8])), [42]);
    assert_eq!(found(&index, &records, &conversation[..8]), [42]);
}

#[test]
fn a_pending_exchange_is_found_and_replaced_when_it_ends() {
    let dir = tempfile::tempdir().unwrap();
    let record = exchange(1, "ana-bot", "ops-bot", "is it raining", "yes, cats and dogs");
    let index = holding(dir.path(), &[pending(&record)]);
    assert_eq!(ask(&index, "status:pending raining ").total, 1);
    assert_eq!((ask(&index, "slower:30m ").total, ask(&index, "slower:90m ").total), (1, 0));
    index.add(&record).unwrap();
    index.commit(Seq(2)).unwrap();
    assert_eq!(ask(&index, "status:pending").total, 0);
    for text in ["raining ", "cats ", "status:ok", "status:answered", ""] {
        assert_eq!(ask(&index, text).total, 1, "{text}");
    }
    let timeout = ended(&record, Outcome::Timeout, "nothing was heard");
    index.add(&timeout).unwrap();
    index.add(&late(&timeout, "sorry, elephants")).unwrap();
    index.commit(Seq(4)).unwrap();
    for (text, n) in [("status:ok", 0), ("status:timeout", 1), ("status:late", 1), ("elephants", 1), ("heard", 1), ("cats", 0), ("-status:late", 0)] {
        assert_eq!(ask(&index, text).total, n, "{text}");
    }
    assert_eq!(index.documents(), 1);
}

#[test]
fn a_typo_is_forgiven_when_nothing_else_is_found() {
    let (dir, records) = (tempfile::tempdir().unwrap(), seeded());
    let index = holding(dir.path(), &records);
    for (text, want) in [("pipelnie ", 19), ("deploymnt pipline ", 19), ("etpae ", 0), ("producion ", 7), ("quikc brwn -jumps", 13)] {
        let hits = ask(&index, text);
        assert!(hits.typo && hits.ids == [records[want].asked.id] && hits.total == 1, "{text}: {hits:?}");
        let high = Highlighter::new(&Query::parse(text, &now()), true);
        assert!(!high.marks(&records[want].asked.message).is_empty(), "{text}");
    }
    for text in ["F-2292", "xyzzyplugh ", "\"pipelnie\"", "超市"] {
        let hits = ask(&index, text);
        assert!(!hits.typo && hits.total == 0, "{text}: {hits:?}");
    }
}

#[test]
fn the_marks_are_in_what_was_found() {
    let (dir, records) = (tempfile::tempdir().unwrap(), seeded());
    let index = holding(dir.path(), &records);
    for text in ["etape", "数据库", "库", "ask_timeout_ms", "F-2291", "quick brown ", "\"lazy dog\"", "host.exam", "デ", "パ"] {
        let high = Highlighter::new(&Query::parse(text, &now()), false);
        for id in ask(&index, text).ids {
            let record = records.iter().find(|r| r.asked.id == id).unwrap();
            let answer = record.answer().map_or("", |a| a);
            assert!(!high.marks(&record.asked.message).is_empty() || !high.marks(answer).is_empty(), "{text} in {record:?}");
        }
    }
}

#[test]
fn the_best_hit_comes_first_when_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let records = [
        exchange(1, "ana-bot", "ops-bot", "relay and a hundred other words that are here to make this a long text", "none"),
        exchange(2, "ana-bot", "ops-bot", "relay relay relay", "relay"),
        exchange(3, "ana-bot", "ops-bot", "relays", "many"),
    ];
    let index = holding(dir.path(), &records);
    let ids = [1, 0, 2].map(|n: usize| records[n].asked.id);
    assert_eq!(best(&index, "relay").ids, ids);
    assert_eq!(ask(&index, "relay").ids, [0, 1, 2].map(|n: usize| records[n].asked.id));
}
