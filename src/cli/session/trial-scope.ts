/** Owns the check of `--confirm-within` and `--on` before a command runs, and the warning about labels in a scope that no device has. */
import { parseSelectors } from '../../policy/fleet/selector-text.ts';
import { askAbout, labelDoubts } from './ask-about.ts';
import type { Session } from './session.ts';
import { scopeText, trialQuery } from './trial-options.ts';

/** Before anything is written: a time that is none must not be found afterwards. */
export async function checkTrial(session: Session): Promise<void> {
  trialQuery(session.values);
  await askAboutScope(session, session.values.on);
}

/** A scope that is no list of selectors is the server's to refuse. */
export async function askAboutScope(session: Session, on: readonly string[] = []): Promise<void> {
  const selectors = parseSelectors(scopeText(on));
  if ('fault' in selectors || !session.isForPeople) return;
  const named = selectors.flatMap((selector) => ('labels' in selector ? selector.labels : []));
  if (named.length === 0) return;
  const client = await session.client();
  const devices = await client.devices.list(await session.organization());
  const known = new Set(devices.flatMap(({ labels = [] }) => labels));
  await askAbout(session, labelDoubts(new Set(named), known));
}
