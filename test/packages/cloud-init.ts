/** Owns what the cloud-init snippet does to a machine, taken from the snippet itself: files first, then packages, as cloud-init does it. */
import { readFileSync } from 'node:fs';
import { parse } from 'yaml';

const snippet = new URL('../../packaging/cloud-init/agent.yaml', import.meta.url);

interface CloudConfig {
  readonly write_files: readonly { readonly path: string; readonly permissions: string; readonly content: string }[];
  readonly packages: readonly string[];
}

export interface FirstBoot {
  readonly files: CloudConfig['write_files'];
  readonly packages: readonly string[];
}

/** The text with this in the place of an example; a snippet that holds no such example is no longer the one that was meant. */
function filledIn(text: string, example: string, value: string): string {
  if (!text.includes(example)) throw new Error(`the snippet does not say ${example}`);
  return text.replace(example, value);
}

/** The snippet as a person fills it in: examples replaced, and nothing else. Its apt source needs a signed repository, and is left out. */
export function firstBoot(values: {
  readonly server: string;
  readonly organization: string;
  readonly key: string;
}): FirstBoot {
  const { server, organization, key } = values;
  const text = [
    ['https://ringfence.example', server],
    ['00000000-0000-0000-0000-000000000000', organization],
    ['rf_enroll_…', key],
  ].reduce((filled, [example = '', value = '']) => filledIn(filled, example, value), readFileSync(snippet, 'utf8'));
  const { write_files: files, packages } = parse(text) as CloudConfig;
  return { files, packages };
}
