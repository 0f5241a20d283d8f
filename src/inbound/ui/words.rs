//! What the page says, in four languages, from one table: a row that lacks a language does not compile. Owns the words and
//! the choice among the languages; never formats times or numbers (that is `when`).

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Lang {
    En,
    Fr,
    Es,
    Zh,
}

impl Lang {
    pub(super) const ALL: [Self; 4] = [Self::En, Self::Fr, Self::Es, Self::Zh];

    pub(super) fn code(self) -> &'static str {
        ["en", "fr", "es", "zh"][self as usize]
    }

    /// Its name in itself.
    pub(super) fn name(self) -> &'static str {
        ["English", "Français", "Español", "中文"][self as usize]
    }

    pub(super) fn words(self) -> &'static Words {
        &TABLE[self as usize]
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        let code = text.trim().get(..2)?.to_ascii_lowercase();
        Self::ALL.into_iter().find(|l| l.code() == code)
    }

    /// The best of an Accept-Language header.
    pub(super) fn accepted(header: &str) -> Option<Self> {
        let weighed = header.split(',').take(20).filter_map(|part| {
            let (tag, q) = part.split_once(";q=").unwrap_or((part, "1"));
            Some((Self::parse(tag)?, q.trim().parse::<f32>().unwrap_or(0.0)))
        });
        // The first of equals.
        weighed
            .fold(None, |best, one| match best {
                Some((_, q)) if q >= one.1 => best,
                _ => Some(one),
            })
            .filter(|(_, q)| *q > 0.0)
            .map(|(lang, _)| lang)
    }

    /// `one` or `many`, as the language counts.
    pub(super) fn plural(self, n: u64, one: &'static str, many: &'static str) -> &'static str {
        let single = match self {
            Self::Fr => n <= 1,
            _ => n == 1,
        };
        if single { one } else { many }
    }
}

/// Puts values in the place of `{name}`.
pub(super) fn fill(text: &str, values: &[(&str, &str)]) -> String {
    values.iter().fold(text.to_owned(), |text, (name, value)| text.replace(&format!("{{{name}}}"), value))
}

macro_rules! words {
    ($($key:ident: $en:literal, $fr:literal, $es:literal, $zh:literal;)*) => {
        pub(super) struct Words { $(pub(super) $key: &'static str,)* }
        static TABLE: [Words; 4] = [Words { $($key: $en,)* }, Words { $($key: $fr,)* }, Words { $($key: $es,)* }, Words { $($key: $zh,)* }];
        #[cfg(test)]
        impl Words {
            fn all(&self) -> Vec<(&'static str, &'static str)> { vec![$((stringify!($key), self.$key),)*] }
        }
    };
}

words! {
    conversations: "Conversations", "Conversations", "Conversaciones", "对话";
    agents: "Agents", "Agents", "Agentes", "智能体";
    skip: "Skip to the content", "Aller au contenu", "Ir al contenido", "跳到内容";
    search: "Search", "Rechercher", "Buscar", "搜索";
    search_hint: "Search everything that was asked and answered", "Chercher dans toutes les questions et réponses", "Buscar en todo lo preguntado y respondido", "搜索所有提问和回答";
    filters: "Filters", "Filtres", "Filtros", "筛选";
    status: "Outcome", "Résultat", "Resultado", "结果";
    agent: "Agent", "Agent", "Agente", "智能体";
    any: "Any", "Tous", "Todos", "全部";
    from_day: "From day", "Du", "Desde", "从";
    to_day: "To day", "Au", "Hasta", "到";
    apply: "Apply", "Appliquer", "Aplicar", "应用";
    clear: "Clear all", "Tout effacer", "Borrar todo", "全部清除";
    remove: "Remove {what}", "Retirer {what}", "Quitar {what}", "移除 {what}";
    exchange_one: "exchange", "échange", "intercambio", "次问答";
    exchange_many: "exchanges", "échanges", "intercambios", "次问答";
    in_ms: "in {n} ms", "en {n} ms", "en {n} ms", "用时 {n} 毫秒";
    typo: "Nothing has exactly these words; these are close.", "Rien ne contient exactement ces mots ; voici les plus proches.", "Nada contiene exactamente estas palabras; estas se parecen.", "没有完全匹配的词，以下是相近的结果。";
    partial: "There may be more: the search was stopped early.", "Il peut y en avoir d’autres : la recherche a été arrêtée avant la fin.", "Puede haber más: la búsqueda se detuvo antes.", "可能还有更多：搜索提前停止了。";
    indexing: "The search index is being built: {n} % done. Everything is listed; a search may not find all of it yet.", "L’index de recherche se construit : {n} %. Tout est listé ; une recherche peut encore être incomplète.", "Se está creando el índice de búsqueda: {n} %. Todo está en la lista; una búsqueda puede estar incompleta.", "正在建立搜索索引：{n}%。列表是完整的，但搜索可能暂时不全。";
    disk_refuses: "The disk refuses to write.", "Le disque refuse d’écrire.", "El disco no acepta escrituras.", "磁盘无法写入。";
    disk_relay: "What happens now is kept in memory until it recovers.", "Ce qui arrive est gardé en mémoire en attendant.", "Lo nuevo se guarda en memoria hasta que se recupere.", "恢复之前，新的内容暂存在内存中。";
    disk_refuse: "New questions are refused until it recovers.", "Les nouvelles questions sont refusées en attendant.", "Las preguntas nuevas se rechazan hasta que se recupere.", "恢复之前，新的提问会被拒绝。";
    newest: "Newest first", "Plus récents", "Más recientes", "最新";
    best: "Best match", "Pertinence", "Más relevantes", "最相关";
    export: "Export", "Exporter", "Exportar", "导出";
    older: "Older", "Plus anciens", "Más antiguos", "更早";
    back_newest: "Back to the newest", "Revenir aux plus récents", "Volver a los más recientes", "回到最新";
    today: "Today", "Aujourd’hui", "Hoy", "今天";
    yesterday: "Yesterday", "Hier", "Ayer", "昨天";
    chart: "Over time", "Au fil du temps", "En el tiempo", "时间分布";
    as_table: "As a table", "En tableau", "Como tabla", "以表格显示";
    time: "Time", "Moment", "Momento", "时间";
    answered: "answered", "répondus", "respondidos", "已回答";
    unanswered: "not answered", "sans réponse", "sin respuesta", "未回答";
    online: "online", "en ligne", "en línea", "在线";
    offline: "offline", "hors ligne", "desconectado", "离线";
    never_seen: "never seen", "jamais vu", "nunca visto", "从未连接";
    open_asks: "{n} open", "{n} en cours", "{n} en curso", "{n} 个进行中";
    asked: "asks", "demande à", "pregunta a", "询问";
    answer: "Answer", "Réponse", "Respuesta", "回答";
    late_answer: "Late answer", "Réponse tardive", "Respuesta tardía", "迟到的回答";
    late: "late answer", "réponse tardive", "respuesta tardía", "迟到的回答";
    show_all: "Show all", "Tout afficher", "Mostrar todo", "显示全部";
    show_less: "Show less", "Réduire", "Mostrar menos", "收起";
    clipped: "Shown up to here. Open the exchange for all {n} kB.", "Affiché jusqu’ici. Ouvrez l’échange pour voir les {n} ko.", "Se muestra hasta aquí. Abra el intercambio para ver los {n} kB.", "仅显示到这里。打开此次问答查看全部 {n} kB。";
    waiting: "Waiting for the answer", "En attente de la réponse", "Esperando la respuesta", "等待回答";
    thread: "Thread", "Fil", "Hilo", "会话";
    copy: "Copy", "Copier", "Copiar", "复制";
    copy_link: "Copy link", "Copier le lien", "Copiar enlace", "复制链接";
    copy_question: "Copy question", "Copier la question", "Copiar pregunta", "复制提问";
    copy_answer: "Copy answer", "Copier la réponse", "Copiar respuesta", "复制回答";
    copy_id: "Copy id", "Copier l’identifiant", "Copiar id", "复制编号";
    c_link: "link", "lien", "enlace", "链接";
    c_question: "question", "question", "pregunta", "提问";
    c_answer: "answer", "réponse", "respuesta", "回答";
    c_id: "id", "identifiant", "id", "编号";
    copied: "Copied", "Copié", "Copiado", "已复制";
    led_by: "asked on behalf of {name}", "demandé pour {name}", "preguntado por encargo de {name}", "代 {name} 提问";
    took: "Time taken", "Durée", "Duración", "耗时";
    began: "Began", "Début", "Comenzó", "开始于";
    all_conversations: "All conversations", "Toutes les conversations", "Todas las conversaciones", "所有对话";
    later: "Later in this thread", "Suite du fil", "Más adelante en el hilo", "此会话后续";
    gone: "There is nothing at this address", "Il n’y a rien à cette adresse", "No hay nada en esta dirección", "此地址没有内容";
    gone_why: "The exchange or conversation is not in this relay’s history. The link may be from another relay, or be cut off.", "L’échange ou la conversation n’est pas dans l’historique de ce relais. Le lien vient peut-être d’un autre relais, ou est tronqué.", "El intercambio o la conversación no está en el historial de este relé. Quizá el enlace sea de otro relé o esté cortado.", "该问答或对话不在此中继的历史中。链接可能来自其他中继，或不完整。";
    trouble: "History cannot be read at the moment", "L’historique est illisible pour le moment", "El historial no se puede leer en este momento", "暂时无法读取历史";
    trouble_why: "Reload in a moment; if it stays so, the relay’s log and /ready say why.", "Rechargez dans un instant ; sinon, le journal du relais et /ready disent pourquoi.", "Recargue en un momento; si persiste, el registro del relé y /ready dicen por qué.", "请稍后刷新；若仍如此，请查看日志和 /ready。";
    nothing: "Nothing matches", "Aucun résultat", "Sin resultados", "没有匹配的内容";
    nothing_why: "Remove a filter, or try fewer or other words.", "Retirez un filtre, ou essayez moins de mots ou d’autres.", "Quite un filtro o pruebe con menos palabras u otras.", "请移除筛选条件，或尝试更少或其他的词。";
    first: "No bot has asked anything yet", "Aucun bot n’a encore rien demandé", "Ningún bot ha preguntado nada todavía", "还没有机器人提问";
    first_why: "Connect two bots and the first question appears here by itself.", "Connectez deux bots : la première question apparaîtra ici toute seule.", "Conecte dos bots y la primera pregunta aparecerá aquí sola.", "连接两个机器人后，第一个提问会自动出现在这里。";
    first_token: "Make a token for each bot (or use those printed at the first start):", "Créez un jeton par bot (ou prenez ceux affichés au premier démarrage) :", "Cree un token para cada bot (o use los mostrados en el primer arranque):", "为每个机器人创建令牌（或使用首次启动时显示的令牌）：";
    first_bot: "Give a Hermes bot these two:", "Donnez ces deux lignes à un bot Hermes :", "Dé estas dos líneas a un bot Hermes:", "为 Hermes 机器人设置这两项：";
    first_mcp: "Or any MCP client this address, with its token as Bearer:", "Ou à tout client MCP cette adresse, avec son jeton en Bearer :", "O a cualquier cliente MCP esta dirección, con su token como Bearer:", "或将此地址提供给任意 MCP 客户端，令牌作为 Bearer：";
    first_try: "Or try it in two terminals:", "Ou essayez dans deux terminaux :", "O pruébelo en dos terminales:", "或在两个终端中试一试：";
    live: "Live", "En direct", "En vivo", "实时";
    paused: "Paused", "En pause", "En pausa", "已暂停";
    connecting: "Connecting", "Connexion", "Conectando", "连接中";
    lost: "Connection lost", "Connexion perdue", "Conexión perdida", "连接已断开";
    pause: "Pause live updates", "Suspendre le direct", "Pausar las novedades", "暂停实时更新";
    resume: "Resume live updates", "Reprendre le direct", "Reanudar las novedades", "恢复实时更新";
    new_one: "{n} new", "{n} nouveau", "{n} nuevo", "{n} 条新内容";
    new_many: "{n} new", "{n} nouveaux", "{n} nuevos", "{n} 条新内容";
    settings: "Settings", "Réglages", "Ajustes", "设置";
    language: "Language", "Langue", "Idioma", "语言";
    theme: "Theme", "Thème", "Tema", "主题";
    system: "System", "Système", "Sistema", "跟随系统";
    light: "Light", "Clair", "Claro", "浅色";
    dark: "Dark", "Sombre", "Oscuro", "深色";
    times: "Times", "Heures", "Horas", "时间";
    local: "Local", "Locales", "Locales", "本地";
    keys: "Keyboard shortcuts", "Raccourcis clavier", "Atajos de teclado", "键盘快捷键";
    key_search: "search", "rechercher", "buscar", "搜索";
    key_move: "next, previous", "suivant, précédent", "siguiente, anterior", "下一个、上一个";
    key_answer: "open or fold the answer", "ouvrir ou replier la réponse", "abrir o plegar la respuesta", "展开或收起回答";
    key_thread: "open the thread", "ouvrir le fil", "abrir el hilo", "打开会话";
    key_copy: "copy the link", "copier le lien", "copiar el enlace", "复制链接";
    key_pause: "pause or resume live updates", "suspendre ou reprendre le direct", "pausar o reanudar las novedades", "暂停或恢复实时更新";
    key_help: "this list", "cette liste", "esta lista", "此列表";
    key_leave: "leave the field, close", "quitter le champ, fermer", "salir del campo, cerrar", "离开输入框、关闭";
    key_switch: "Single-key shortcuts", "Raccourcis à une touche", "Atajos de una tecla", "单键快捷键";
    close: "Close", "Fermer", "Cerrar", "关闭";
    syntax: "In the search box", "Dans la recherche", "En la búsqueda", "搜索语法";
    syntax_phrase: "\"exact phrase\"  -without", "\"phrase exacte\"  -sans", "\"frase exacta\"  -sin", "\"完整短语\"  -排除";
    figures: "Since", "Depuis", "Desde", "时间范围";
    day1: "24 hours", "24 heures", "24 horas", "24 小时";
    day7: "7 days", "7 jours", "7 días", "7 天";
    day30: "30 days", "30 jours", "30 días", "30 天";
    ever: "All time", "Toujours", "Siempre", "全部";
    questions: "Questions to it", "Questions reçues", "Preguntas recibidas", "收到的提问";
    half: "Half within", "La moitié en", "La mitad en", "半数用时";
    most: "95 % within", "95 % en", "95 % en", "95% 用时";
    outcomes: "Outcomes", "Résultats", "Resultados", "结果分布";
    no_figures: "Nothing was asked of it in this time.", "Rien ne lui a été demandé sur cette période.", "Nada se le preguntó en este período.", "该时段没有提问。";
    ago_s: "{n} s ago", "il y a {n} s", "hace {n} s", "{n} 秒前";
    ago_m: "{n} min ago", "il y a {n} min", "hace {n} min", "{n} 分钟前";
    ago_h: "{n} h ago", "il y a {n} h", "hace {n} h", "{n} 小时前";
    ago_d: "{n} d ago", "il y a {n} j", "hace {n} d", "{n} 天前";
    just_now: "now", "à l’instant", "ahora", "刚刚";
    months: "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec", "janv. févr. mars avr. mai juin juil. août sept. oct. nov. déc.", "ene feb mar abr may jun jul ago sep oct nov dic", "1月 2月 3月 4月 5月 6月 7月 8月 9月 10月 11月 12月";
    weekdays: "Monday Tuesday Wednesday Thursday Friday Saturday Sunday", "lundi mardi mercredi jeudi vendredi samedi dimanche", "lunes martes miércoles jueves viernes sábado domingo", "星期一 星期二 星期三 星期四 星期五 星期六 星期日";
    day: "{weekday}, {day} {month} {year}", "{weekday} {day} {month} {year}", "{weekday}, {day} {month} {year}", "{year}年{month}{day}日 {weekday}";
    day_short: "{day} {month}", "{day} {month}", "{day} {month}", "{month}{day}日";
    s_pending: "waiting", "en attente", "en espera", "等待中";
    s_ok: "answered", "répondu", "respondido", "已回答";
    s_timeout: "timed out", "délai dépassé", "sin respuesta a tiempo", "超时";
    s_agent_offline: "was offline", "était hors ligne", "estaba desconectado", "对方离线";
    s_agent_disconnected: "connection lost", "connexion perdue", "conexión perdida", "连接中断";
    s_failed: "failed", "échec", "falló", "失败";
    s_cancelled: "cancelled", "annulé", "cancelado", "已取消";
    s_expired: "expired", "expiré", "caducó", "已过期";
    s_unknown_agent: "unknown agent", "agent inconnu", "agente desconocido", "未知智能体";
    s_unknown_conversation: "unknown conversation", "conversation inconnue", "conversación desconocida", "未知对话";
    s_self_ask: "asked itself", "s’est interrogé lui-même", "se preguntó a sí mismo", "询问自己";
    s_not_allowed: "not allowed", "non autorisé", "no permitido", "不允许";
    s_loop_limit: "loop stopped", "boucle stoppée", "bucle detenido", "循环已阻止";
    s_rate_limited: "too many", "trop de demandes", "demasiadas", "过于频繁";
    s_too_large: "too long", "trop long", "demasiado largo", "过长";
    log_in: "Log in", "Se connecter", "Iniciar sesión", "登录";
    log_in_why: "The owner’s token opens this page. It was shown once when it was made; another one is made by", "Le jeton du propriétaire ouvre cette page. Il a été affiché une seule fois, à sa création ; pour en créer un autre :", "El token del propietario abre esta página. Se mostró una sola vez, al crearlo; para crear otro:", "用所有者令牌打开此页面。令牌只在生成时显示一次；要重新生成，请运行";
    token: "Token", "Jeton", "Token", "令牌";
    log_in_wrong: "This token opens nothing here.", "Ce jeton n’ouvre rien ici.", "Este token no abre nada aquí.", "此令牌无效。";
    log_in_slow: "Too many tries. Wait {n} s.", "Trop d’essais. Attendez {n} s.", "Demasiados intentos. Espere {n} s.", "尝试次数过多，请等待 {n} 秒。";
    log_out: "Log out", "Se déconnecter", "Cerrar sesión", "退出登录";
    open_to_all: "No login: whoever reaches this address reads everything and acts as the owner.", "Sans connexion : quiconque atteint cette adresse lit tout et agit en propriétaire.", "Sin inicio de sesión: quien llegue a esta dirección lee todo y actúa como propietario.", "未启用登录：能访问此地址的人都可以查看全部内容并以所有者身份操作。";
    security: "Security", "Sécurité", "Seguridad", "安全";
    security_none: "Nothing of this kind is on record.", "Rien de tel n’est enregistré.", "No hay nada de este tipo en el registro.", "没有此类记录。";
    k_refused_agent: "agent refused", "agent refusé", "agente rechazado", "智能体被拒";
    k_refused_login: "login refused", "connexion refusée", "acceso rechazado", "登录被拒";
    k_refused_request: "request refused", "requête refusée", "petición rechazada", "请求被拒";
    k_login: "login", "connexion", "inicio de sesión", "登录";
    k_logout: "logout", "déconnexion", "cierre de sesión", "退出";
    k_token: "token", "jeton", "token", "令牌";
    k_configuration: "configuration", "configuration", "configuración", "配置";
    k_erasure: "erased", "effacé", "borrado", "已删除";
    k_person: "person", "personne", "persona", "人工操作";
    k_policy: "refused by policy", "refusé par une règle", "rechazado por una regla", "按规则拒绝";
    k_loop: "loop stopped", "boucle arrêtée", "bucle detenido", "循环已停止";
    a_ask: "Ask", "Interroger", "Preguntar", "提问";
    a_question: "Your question", "Votre question", "Su pregunta", "您的问题";
    a_send: "Send", "Envoyer", "Enviar", "发送";
    a_queue: "If it is offline, leave the question for its return", "S’il est hors ligne, laisser la question pour son retour", "Si está desconectado, dejar la pregunta para su regreso", "如果离线，则留待其上线后处理";
    a_go_on: "Go on with this conversation", "Poursuivre cette conversation", "Continuar esta conversación", "继续此对话";
    a_step_in: "Step in: {from} waits for {to}", "Intervenir : {from} attend {to}", "Intervenir: {from} espera a {to}", "介入：{from} 正在等待 {to}";
    a_answer_as: "Answer in {to}’s place", "Répondre à la place de {to}", "Responder en lugar de {to}", "代替 {to} 回答";
    a_answer: "Answer", "Répondre", "Responder", "回答";
    a_cancel: "Cancel this exchange", "Annuler cet échange", "Cancelar este intercambio", "取消此次问答";
    a_paused: "paused by a person", "mis en pause par une personne", "en pausa por una persona", "已被人工暂停";
    a_pause: "Pause", "Mettre en pause", "Pausar", "暂停";
    a_resume: "Resume", "Reprendre", "Reanudar", "恢复";
    a_pairs: "Pairs that may not talk", "Paires qui ne peuvent pas se parler", "Pares que no pueden hablar", "禁止互相交谈的组合";
    a_other: "and", "et", "y", "与";
    a_pause_pair: "Pause this pair", "Mettre cette paire en pause", "Pausar este par", "暂停此组合";
    a_clear: "Let them go on", "Les laisser continuer", "Dejar que sigan", "允许继续";
    a_clear_why: "The counts that stopped this question begin anew.", "Les compteurs qui ont arrêté cette question repartent de zéro.", "Los contadores que detuvieron esta pregunta empiezan de nuevo.", "阻止此提问的计数将重新开始。";
    a_by: "by {who}, a person", "par {who}, une personne", "por {who}, una persona", "由 {who}（人工）";
    a_blank: "Nothing was written.", "Rien n’a été écrit.", "No se escribió nada.", "内容为空。";
    a_too_large: "The text has {n} bytes; {limit} = {max}.", "Le texte fait {n} octets ; {limit} = {max}.", "El texto tiene {n} bytes; {limit} = {max}.", "文本有 {n} 字节；{limit} = {max}。";
    a_over: "This exchange is over, or there is none.", "Cet échange est terminé, ou n’existe pas.", "Este intercambio terminó o no existe.", "此次问答已结束或不存在。";
    a_no_agent: "These are not agents of this relay, or not two different ones.", "Ce ne sont pas des agents de ce relais, ou pas deux différents.", "No son agentes de este relé, o no son dos distintos.", "不是此中继的智能体，或不是两个不同的智能体。";
    a_full: "There are too many pauses; resume some first.", "Il y a trop de pauses ; reprenez-en d’abord.", "Hay demasiadas pausas; reanude algunas primero.", "暂停项过多，请先恢复一些。";
    not_done: "Not done", "Non effectué", "No realizado", "未执行";
    form_old: "This form is from an older page, or from elsewhere. Go back, reload the page and send it again.", "Ce formulaire vient d’une page ancienne ou d’ailleurs. Revenez, rechargez la page et renvoyez-le.", "Este formulario es de una página antigua o de otro sitio. Vuelva, recargue la página y envíelo de nuevo.", "此表单来自旧页面或其他网站。请返回并刷新页面后重新提交。";
    viewer_only: "With this login you may read, but not act.", "Avec cette connexion vous pouvez lire, mais pas agir.", "Con esta sesión puede leer, pero no actuar.", "此登录只能查看，不能操作。";
    s_conflict: "conflict", "conflit", "conflicto", "冲突";
    s_store_unavailable: "not recorded", "non enregistré", "no registrado", "未记录";
}

impl Words {
    /// A status word in this language; the word itself where there is none.
    pub(super) fn status<'a>(&self, word: &'a str) -> &'a str
    where
        'static: 'a,
    {
        match word {
            "pending" => self.s_pending,
            "ok" => self.s_ok,
            "timeout" => self.s_timeout,
            "agent_offline" => self.s_agent_offline,
            "agent_disconnected" => self.s_agent_disconnected,
            "failed" => self.s_failed,
            "cancelled" => self.s_cancelled,
            "expired" => self.s_expired,
            "unknown_agent" => self.s_unknown_agent,
            "unknown_conversation" => self.s_unknown_conversation,
            "self_ask" => self.s_self_ask,
            "not_allowed" => self.s_not_allowed,
            "loop_limit" => self.s_loop_limit,
            "rate_limited" => self.s_rate_limited,
            "too_large" => self.s_too_large,
            "conflict" => self.s_conflict,
            "store_unavailable" => self.s_store_unavailable,
            "late" => self.late,
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(text: &str) -> Vec<&str> {
        let mut found: Vec<&str> = text.split('{').skip(1).filter_map(|rest| rest.split_once('}')).map(|(name, _)| name).collect();
        found.sort_unstable();
        found
    }

    #[test]
    fn four_languages_have_the_same_keys_and_places() {
        let english = Lang::En.words().all();
        for lang in Lang::ALL {
            let all = lang.words().all();
            assert_eq!(all.len(), english.len());
            for ((key, text), (same, original)) in all.iter().zip(&english) {
                assert_eq!(key, same);
                assert!(!text.trim().is_empty(), "{key} is empty in {}", lang.code());
                assert_eq!(places(text), places(original), "{key} in {}", lang.code());
            }
            assert_eq!(lang.words().months.split(' ').count(), 12);
            assert_eq!(lang.words().weekdays.split(' ').count(), 7);
        }
    }

    #[test]
    fn every_outcome_has_a_word() {
        for outcome in crate::core::outcome::Outcome::ALL.map(crate::core::outcome::Outcome::word).into_iter().chain(["pending", "late"]) {
            assert!(
                outcome == "failed" || Lang::En.words().status(outcome) != outcome || ["cancelled", "expired", "conflict"].contains(&outcome),
                "{outcome}"
            );
            assert_ne!(Lang::Zh.words().status(outcome), outcome);
        }
    }

    #[test]
    fn the_browsers_wish_is_heard() {
        assert_eq!(Lang::accepted("de-DE,fr;q=0.8,en;q=0.5"), Some(Lang::Fr));
        assert_eq!(Lang::accepted("zh-Hans-CN, en;q=0.9"), Some(Lang::Zh));
        assert_eq!(Lang::accepted("de"), None);
        assert_eq!(Lang::accepted("é;q=x,,;"), None);
    }
}
