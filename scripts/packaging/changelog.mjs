/** Owns reading the changelog: what a release has to tell. */

/**
 * The section of that version; before it has one, what is not released yet.
 * @param {string} text
 * @param {string} version
 */
export function changelogSection(text, version) {
  const sections = text.split(/^(?=## \[)/m);
  const section =
    sections.find((each) => each.startsWith(`## [${version}]`)) ??
    sections.find((each) => each.startsWith('## [Unreleased]'));
  if (section === undefined) throw new Error(`the changelog has no section for ${version}`);
  return `${section.replace(/^## .*\n/, `# Ringfence ${version}\n`).trimEnd()}\n`;
}
