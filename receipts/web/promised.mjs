// What a test needs from the machine. `.ci/run` installs it and names what it could not install, so that
// there nothing is skipped unsaid.

/** `false` where it is found, else why the test is skipped; throws where it was promised. */
export const skipWithout = (name, found) => {
  if (found) return false;
  const missing = (process.env.WHIPSTITCH_NOT_INSTALLED ?? '').split(' ');
  if (process.env.WHIPSTITCH_CI === '1' && !missing.includes(name)) throw new Error(`CI promised ${name}, and it is not here`);
  return `skipped: no ${name} on this machine`;
};
