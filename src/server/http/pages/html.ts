/** Owns the HTML pages that the server itself writes. They work without script. */

export const escape = (text: string): string =>
  text.replace(/[&<>"']/g, (c) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' })[c] ?? c);

/** Nothing from elsewhere, no script, no frame. */
export const pageHeaders = {
  'content-type': 'text/html; charset=utf-8',
  'content-security-policy':
    "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'x-frame-options': 'DENY',
} as const;

export const page = (title: string, body: string): string => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escape(title)}</title>
<link rel="stylesheet" href="/api/docs/style.css">
</head>
<body>
${body}
</body>
</html>
`;

export const style = `:root { color-scheme: light dark; --line: #8884; --soft: #8881; --accent: #0b6bcb; }
@media (prefers-color-scheme: dark) { :root { --accent: #6cb2f7; } }
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; padding: 1rem; max-width: 60rem; overflow-wrap: anywhere; }
h1 { font-size: 1.8rem; } h2 { margin-top: 2.5rem; border-bottom: 1px solid var(--line); padding-bottom: .25rem; }
h3 { margin: 1.75rem 0 .25rem; font-size: 1.05rem; }
a { color: var(--accent); }
code, pre { font: .9em/1.45 ui-monospace, monospace; background: var(--soft); border-radius: .25rem; padding: .1em .3em; }
pre { padding: .75rem; overflow-x: auto; }
table { border-collapse: collapse; width: 100%; margin: .5rem 0; }
th, td { text-align: left; vertical-align: top; padding: .3rem .6rem .3rem 0; border-bottom: 1px solid var(--line); }
nav ul { columns: 18rem; padding-left: 1rem; }
details { margin: .5rem 0; } summary { cursor: pointer; }
.method { font-weight: 700; display: inline-block; min-width: 4.2em; }
`;
