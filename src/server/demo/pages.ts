/** Owns the pages of the demo identity provider: plain HTML, no script, no external resources. */

const escape = (text: string): string =>
  text.replace(/[&<>"']/g, (c) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' })[c] ?? c);

export const demoPage = (title: string, body: string): string => `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>${escape(title)}</title>
<style>body{font:18px/1.5 system-ui,sans-serif;max-width:26rem;margin:4rem auto;padding:0 1rem}button{font:inherit;padding:.5rem 1rem;margin:.25rem 0;width:100%}code{font-size:1.4em}</style>
</head>
<body><h1>${escape(title)}</h1>${body}
<p><small>The demo identity provider of Ringfence: it does not ask for passwords.</small></p></body>
</html>
`;

/** One button for each person. */
export const pickPage = (uid: string, people: readonly string[]): string =>
  demoPage(
    'Who are you?',
    people
      .map(
        (name) =>
          `<form method="post" action="/pick/${escape(uid)}/${escape(name)}"><button>${escape(name)}</button></form>`,
      )
      .join(''),
  );

/** For a form that the provider writes itself, with buttons of ours. */
export const formPage = (title: string, lead: string, form: string, buttons: string): string =>
  demoPage(title, `<p>${lead}</p>${form}${buttons}`);

export const shown = escape;
