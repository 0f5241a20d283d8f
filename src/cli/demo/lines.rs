//! What the demo's bots say to each other. Invented, all of it. `{n}` becomes a number that differs from thread to thread.

/// One conversation: who asks, who answers, and the turns.
pub(super) struct Script {
    pub from: &'static str,
    pub to: &'static str,
    pub turns: &'static [(&'static str, &'static str)],
}

pub(super) const BOTS: [&str; 6] = ["assistant-lea", "compta-bot", "sre-bot", "release-bot", "almacen-bot", "yanjiu-bot"];

const fn script(from: &'static str, to: &'static str, turns: &'static [(&'static str, &'static str)]) -> Script {
    Script { from, to, turns }
}

#[rustfmt::skip]
pub(super) const SCRIPTS: &[Script] = &[
    script("assistant-lea", "compta-bot", &[
        ("Quel est le statut de la facture F-2{n} ? Le client relance depuis lundi.", "La facture F-2{n} est validée, en attente de paiement.\n\nÉtape 1 : relire la procédure de relance.\nÉtape 2 : vérifier que l’IBAN du client est à jour.\nÉtape 3 : relancer si rien n’est arrivé vendredi."),
        ("Et l’échéance exacte ?", "Échéance le 15 du mois prochain, 30 jours fin de mois."),
        ("Merci. Peux-tu préparer la relance, polie mais ferme ?", "Voici le texte :\n\n« Bonjour, sauf erreur de notre part, la facture F-2{n} reste impayée. Pourriez-vous nous indiquer la date du règlement ? »\n\nJe l’enverrai vendredi à 9 h si le paiement n’est pas arrivé."),
    ]),
    script("compta-bot", "assistant-lea", &[
        ("Il manque le justificatif de la note de frais n° {n} (train Lyon–Paris, 74 €). Léa l’a-t-elle ?", "Oui, elle l’a retrouvé dans sa boîte : je le joins au dossier {n} et je te préviens quand c’est déposé."),
        ("Déposé ? Je clôture le mois ce soir.", "C’est déposé. Tu peux clôturer."),
    ]),
    script("release-bot", "sre-bot", &[
        ("Can you check why deploy 4{n} failed on eu-west? Please include the last log lines.", "The health check never passed. Last lines:\n\n```log\n12:04:11 INFO  starting api 4.{n}.0\n12:04:12 WARN  ask_timeout_ms = 500 is very low\n12:04:42 ERROR database pool exhausted (max 20)\n12:04:42 INFO  rolling back\n```\n\nThe new worker opens 30 connections; the pool allows 20. Raise `pool.max` or lower the workers, then deploy again."),
        ("Raised the pool to 40. Is it safe to go on?", "Yes. The database allows 200 and we use 90. Go on, I am watching."),
        ("Deployed. Anything odd?", "p95 is 180 ms, error rate 0.02 %. Nothing odd for 15 minutes."),
    ]),
    script("sre-bot", "release-bot", &[
        ("Which version is running in ap-south right now?", "4.{n}.2, since yesterday 18:40. 4.{n}.3 is waiting for your approval: https://deploy.example.org/r/4{n}"),
        ("Approved, but only one zone first.", "Done: zone a only. I will ask again before the other two."),
    ]),
    script("release-bot", "yanjiu-bot", &[
        ("Summarise what changed in the tokenizer between 2.{n} and 2.{n}+1, for the release notes. One paragraph, no jargon.", "Search now finds words written with or without accents, and single Chinese characters inside longer text. Old links keep working. Nothing has to be migrated; the index is rebuilt once, in the background, in about a minute per million messages."),
    ]),
    script("yanjiu-bot", "sre-bot", &[
        ("请帮我查一下上周三的备份任务是否成功，并给出日志摘要。", "上周三的备份任务已成功完成，共 {n} 个文件，总大小 12.4 GB，没有错误。\n\n摘要：\n• 02:00 开始全量备份\n• 02:47 校验通过\n• 02:48 上传到异地存储"),
        ("异地存储的恢复演练上次是什么时候做的？", "上个月 18 日做过一次，恢复用时 23 分钟，数据完整。"),
    ]),
    script("assistant-lea", "yanjiu-bot", &[
        ("请把这段会议纪要翻译成英文：数据库迁移推迟到下周二，由运维负责通知客户。", "The database migration is postponed to next Tuesday; operations will notify the customers."),
        ("再帮我写一句给客户的中文说明，语气正式。", "尊敬的客户：为保障服务质量，原定的数据库迁移将调整至下周二进行，届时如有影响，我们会提前与您联系。"),
    ]),
    script("yanjiu-bot", "almacen-bot", &[
        ("仓库里还有多少件型号为 KX-{n} 的传感器？客户要得很急。", "Quedan 42 unidades de KX-{n} en el almacén central. 明天可以发货。"),
    ]),
    script("almacen-bot", "compta-bot", &[
        ("¿Puedes confirmar que el pedido {n} está pagado antes de enviarlo?", "Sí: el pedido {n} está pagado por transferencia desde el martes. Puedes enviarlo."),
        ("Gracias. ¿Y la dirección de facturación es la misma que la de entrega?", "No. La factura va a la sede de Madrid; la entrega, a Zaragoza."),
    ]),
    script("assistant-lea", "almacen-bot", &[
        ("¿Cuándo llega el envío {n} a Sevilla? El cliente pregunta por la mañana.", "Sale hoy a las 18:00 y llega mañana antes de las 12:00. Número de seguimiento: ES{n}7741ZX."),
        ("Perfecto. Avísame si se retrasa.", "De acuerdo: lo vigilo y te aviso."),
    ]),
    script("sre-bot", "almacen-bot", &[
        ("¿Sigue fallando la impresora de etiquetas del muelle {n}?", "No, desde que cambiamos el cable no ha vuelto a fallar. Llevamos 340 etiquetas seguidas."),
    ]),
    script("compta-bot", "sre-bot", &[
        ("L’export comptable de {n} lignes tourne depuis deux heures. C’est normal ?", "Non. La requête attendait un verrou :\n\n```sql\nSELECT pid, state, query\nFROM pg_stat_activity\nWHERE wait_event_type = 'Lock';\n```\n\nJ’ai terminé la session bloquante ; l’export a repris et finira dans quatre minutes."),
        ("Terminé, merci ! Comment l’éviter la prochaine fois ?", "Lancer l’export après 20 h, quand la synchronisation est finie. J’ai ajouté une alerte si un verrou dure plus de cinq minutes."),
    ]),
    script("release-bot", "assistant-lea", &[
        ("The customer of ticket {n} asks for the fix by Friday. May I promise it?", "Léa says yes, if the review is done by Thursday noon. She has put it in her calendar."),
    ]),
    script("sre-bot", "yanjiu-bot", &[
        ("Why would a p99 of 900 ms appear only on the hour, for exactly {n} seconds?", "Three usual suspects, in this order:\n\n1. A cron job that takes a table lock: compare `pg_locks` at :00 with :30.\n2. Certificate or secret rotation that drops all connections at once.\n3. A cache with a fixed one-hour expiry: everything expires together. Add jitter.\n\nThe fixed length points at the first. I would look there before anything else. If the lock is held by the hourly report, moving it to a replica removes the problem without touching the report itself; if it is the vacuum, raise its cost limit and it will be done in a fraction of the time. Tell me what you find and I will narrow it down."),
        ("It was the hourly report. Moved to the replica.", "Good. Keep the jitter on the cache all the same: it will be the next one."),
    ]),
    script("yanjiu-bot", "compta-bot", &[
        ("Quel est le taux de TVA applicable à une prestation de traduction pour un client chinois ?", "Prestation B2B hors UE : pas de TVA française, mention « TVA non applicable – art. 259-1 du CGI » sur la facture."),
    ]),
    script("almacen-bot", "release-bot", &[
        ("La aplicación del almacén se cierra al escanear códigos de más de {n} caracteres. ¿Es un fallo conocido?", "Sí, es el fallo 5{n}: está corregido en la versión de mañana. Mientras tanto, escanee en dos partes."),
    ]),
];

pub(super) const FAILURES: [&str; 4] =
    ["the model returned nothing", "la tâche a été interrompue", "the tool `read_ledger` is not available", "上下文过长，无法完成"];
