/** Owns reading a walk-through out of a Markdown page, so that a test can follow it word for word. */

export interface Step {
  /** The commands that the page shows. */
  readonly script: string;
  /** Lines of output that the page shows; `…` matches anything within a line. */
  readonly shows: readonly string[];
}

/** The `sh` blocks under a heading, in order, each with the `text` block that follows it. */
export function stepsUnder(heading: string, markdown: string): readonly Step[] {
  const section = markdown.split(/^## /m).find((part) => part.startsWith(`${heading}\n`));
  if (section === undefined) throw new Error(`there is no heading "${heading}"`);
  const steps: { script: string; shows: string[] }[] = [];
  for (const [, language, body = ''] of section.matchAll(/^```(\w+)\n([\s\S]*?)^```$/gm)) {
    if (language === 'sh') steps.push({ script: body, shows: [] });
    else if (language === 'text') steps.at(-1)?.shows.push(...body.split('\n').filter((line) => line !== ''));
  }
  return steps;
}

/** Whether the output holds the line that the page shows. */
export function isShown(line: string, output: string): boolean {
  const pattern = line
    .split('…')
    .map((part) => part.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`))
    .join('.*');
  return new RegExp(`^${pattern}$`, 'm').test(output);
}
