"""What people write where there is nothing to write: "n/a", "see letter", "k.A.", "RAS"."""

from __future__ import annotations

from medcoder.text import fold

_WRITTEN = """
n/a; n.a.; na; nil; none; nothing; null; nan; unknown; not known; not applicable; not available;
not recorded; not stated; not given; not specified; not done; no data; no entry; no diagnosis;
none recorded; none given; missing; blank; empty; tbc; tba; tbd; to be confirmed; to be advised;
pending; awaited; awaiting results; awaiting report; results pending; deferred; see notes;
see note; see letter; see report; see above; see below; as above; as below; ditto; same; other;
others; misc; miscellaneous; various; test; testing; test entry; dummy; dummy entry; xxx; error;
entered in error; duplicate; duplicate entry; ignore; do not use; no problems; no issues;
no complaints; left blank; deleted; cancelled; not coded; uncoded; undetermined; unspecified; nos;
k.A.; keine Angabe; keine Angaben; unbekannt; entfällt; ausstehend; folgt; s.o.; s.u.; siehe oben;
siehe unten; siehe Brief; siehe Arztbrief; siehe Befund; s. Brief; sonstiges; andere; keine; leer;
nicht bekannt; nicht zutreffend; nicht angegeben; in Abklärung; offen; Eingabefehler; wie oben;
sin datos; no consta; N/C; NS/NC; NC; pendiente; desconocido; desconocida; ver informe; ver nota;
ver historia; ídem; idem; otros; otro; ninguno; ninguna; no aplica; no procede; S/D; prueba;
sin especificar; no especificado; sin diagnóstico; en blanco; por confirmar; en estudio;
néant; RAS; R.A.S.; rien à signaler; non renseigné; NR; non précisé; inconnu; inconnue; en attente;
en cours; voir courrier; voir dossier; voir lettre; cf courrier; cf dossier; autre; autres;
sans objet; aucun; aucune; à préciser; à compléter; non applicable; vide; essai;
n.v.t.; nvt; onbekend; geen; zie brief; zie boven; zie onder; zie dossier; zie verslag; overig;
overige; niet ingevuld; niet bekend; niet van toepassing; volgt; leeg; nog niet bekend;
wordt vervolgd;
n.d.; nd; non noto; non nota; non disponibile; in attesa; vedi lettera; vedi sopra; nessuno;
nessuna; altro; altri; sconosciuto; non applicabile; non specificato; da definire; vuoto; prova;
sem dados; não informado; não consta; desconhecido; pendente; ver nota; ver relatório; nenhum;
nenhuma; outros; outro; não se aplica; a definir; em branco; sem diagnóstico; não especificado;
brak; brak danych; nie dotyczy; nieznane; nieznany; jw; j.w.; inne; w trakcie; nie podano;
jak wyżej; нет; нет данных; н/д; неизвестно; см. выписку; см. выше; прочее; другое; тест;
не указано; пусто; не применимо; в работе
"""
_NOTHING = frozenset(fold(" ".join(some.split())) for some in _WRITTEN.split(";"))


def is_placeholder(text: str) -> bool:
    """Whether a string stands for nothing, unless it is a name.

    >>> [is_placeholder(text) for text in ("N/A", "see letter", "k. A.", "nil by mouth")]
    [True, True, True, False]
    """
    return fold(text) in _NOTHING
