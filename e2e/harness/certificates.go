package harness

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Authority signs certificates for loopback that are good for an hour.
type Authority struct {
	t      testing.TB
	folder string
	cert   *x509.Certificate
	key    *ecdsa.PrivateKey
	issued int64
}

// NewAuthority makes an authority, and writes its certificate into a folder: ca.pem.
func NewAuthority(t testing.TB, folder string) *Authority {
	t.Helper()
	a := &Authority{t: t, folder: folder, cert: template("the site")}
	a.cert.IsCA, a.cert.BasicConstraintsValid, a.cert.KeyUsage = true, true, x509.KeyUsageCertSign
	a.key = newKey(t)
	a.sign("ca", a.cert, a.cert, &a.key.PublicKey, a.key)
	return a
}

// Issue writes a certificate for servers and clients, NAME.pem, and its key, NAME.key.
func (a *Authority) Issue(name string) {
	a.t.Helper()
	a.leaf(name, a.cert, a.key)
}

// SelfSigned writes what Issue does of a certificate that the authority has not signed.
func (a *Authority) SelfSigned(name string) {
	a.t.Helper()
	a.leaf(name, nil, nil)
}

func (a *Authority) leaf(name string, parent *x509.Certificate, signer *ecdsa.PrivateKey) {
	a.t.Helper()
	key, cert := newKey(a.t), template(name)
	a.issued++
	cert.SerialNumber = big.NewInt(1 + a.issued)
	cert.IPAddresses, cert.KeyUsage = []net.IP{net.IPv4(127, 0, 0, 1)}, x509.KeyUsageDigitalSignature
	cert.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	if parent == nil {
		parent, signer = cert, key
	}
	a.sign(name, cert, parent, &key.PublicKey, signer)
	der, err := x509.MarshalECPrivateKey(key)
	require.NoError(a.t, err)
	a.write(name+".key", "EC PRIVATE KEY", der)
}

func (a *Authority) sign(name string, cert, parent *x509.Certificate, public *ecdsa.PublicKey, signer *ecdsa.PrivateKey) {
	a.t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, cert, parent, public, signer)
	require.NoError(a.t, err)
	a.write(name+".pem", "CERTIFICATE", der)
}

func (a *Authority) write(name, kind string, der []byte) {
	a.t.Helper()
	require.NoError(a.t, os.WriteFile(filepath.Join(a.folder, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
}

func template(name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	return key
}
