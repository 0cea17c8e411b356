/** Owns the operations on invitations: people who become members when they sign in. */
import type { Invitation } from '../../../api/organization.ts';
import { readEmail } from '../../../policy/names/email.ts';
import { readUsername } from '../../../policy/names/username.ts';
import type { RequestProblem } from '../../../api/codes.ts';
import type { InvitationRecord } from '../../store/accounts/invitations.ts';
import { record, type Handler } from '../call.ts';
import { invalid } from '../../problems.ts';
import { answerList } from '../request/paging.ts';

const day = 86_400_000;
/** An invitation is open for a week unless the owner says otherwise, and never for longer than 90 days. */
const defaultMs = 7 * day;
const longestMs = 90 * day;

const shown = (invitation: InvitationRecord): Invitation => invitation;

const createInvitation: Handler<'createInvitation'> = async (call, { store, clock, issuers }) => {
  const { email, username, issuer, role = 'member', expires_at } = call.body;
  const problems: RequestProblem[] = [];
  const wrong = (pointer: string, code: RequestProblem['code'], detail: string): void =>
    void problems.push({ pointer, code, detail });
  if ((email === undefined) === (username === undefined))
    wrong('', email === undefined ? 'missing_field' : 'contradiction', 'Give either email or username.');
  const address = email === undefined ? undefined : readEmail(email);
  if (email !== undefined && address === undefined)
    wrong('/email', 'not_an_email', 'This is not an e-mail address of plain ASCII characters.');
  // A name that no provider could send in this form would never match.
  if (username !== undefined && readUsername(username) !== username)
    wrong('/username', 'not_a_username', 'A name must not contain invisible characters, or mix scripts.');
  const [only] = issuers;
  const at = issuer ?? (issuers.length === 1 ? only : undefined);
  if (at === undefined || !issuers.includes(at)) wrong('/issuer', 'unknown_issuer', issuerProblem(issuers));
  const end = expires_at === undefined ? clock() + defaultMs : Date.parse(expires_at);
  if (!(end > clock() && end <= clock() + longestMs))
    wrong('/expires_at', 'out_of_range', 'The time must be in the future, and at most 90 days from now.');
  if (problems.length > 0 || at === undefined) throw invalid(problems);
  const answerOf = (made: InvitationRecord) => record(shown(made));
  const made = await store.invitations.invite(call.params.org_id, call.creator(answerOf), {
    issuer: at,
    ...(address === undefined ? { username: username ?? '' } : { email: address }),
    role,
    expires_at: new Date(end),
  });
  return answerOf(made);
};

function issuerProblem(issuers: readonly string[]): string {
  if (issuers.length === 0) return 'This server has no identity provider, so nobody can sign in at one.';
  return `The server accepts sign-ins at ${issuers.join(', ')}. Name one of them.`;
}

const listInvitations: Handler<'listInvitations'> = async (call, { store }) => {
  const { org_id } = call.params;
  return answerList(call, (part) => store.invitations.list(org_id, part), {
    id: (row) => row.id,
    json: (row) => JSON.stringify(shown(row)),
  });
};

const revokeInvitation: Handler<'revokeInvitation'> = async (call, { store }) =>
  record(shown(await store.invitations.revoke(call.params.org_id, call.by, call.params.invitation_id)));

export const invitationHandlers = { createInvitation, listInvitations, revokeInvitation } as const;
